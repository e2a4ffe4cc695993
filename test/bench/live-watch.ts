import type { Nats } from '@baton/store/connect'
import { HEADER } from '@baton/store/codec'

type Seen = { readonly epoch: number; readonly atMs: number }

/**
 * Hears every stored event of every run as NATS republishes it, and notes when the first one of each epoch came: what
 * a takeover is measured by.
 */
export class LiveWatch {
  readonly #firsts = new Map<string, Seen[]>()
  events = 0
  readonly #stop: () => void

  constructor({ nc }: Nats) {
    const subscription = nc.subscribe('live.run.*', {
      callback: (error, message) => {
        if (error !== null) return
        this.events++
        const run = message.subject.slice('live.run.'.length)
        const epoch = Number(message.headers?.get(HEADER.epoch))
        const seen = this.#firsts.get(run) ?? []
        if (seen.at(-1)?.epoch === epoch) return
        this.#firsts.set(run, [...seen, { epoch, atMs: Date.now() }])
      },
    })
    this.#stop = () => subscription.unsubscribe()
  }

  /** The epoch a run is written under; 0 before its first event. */
  epoch(run: string): number {
    return this.#firsts.get(run)?.at(-1)?.epoch ?? 0
  }

  /** When the first event of an epoch after this one came; null while none has. */
  laterThan(run: string, epoch: number): number | null {
    return this.#firsts.get(run)?.find((seen) => seen.epoch > epoch)?.atMs ?? null
  }

  close(): void {
    this.#stop()
  }
}
