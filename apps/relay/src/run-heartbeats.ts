import type { Heartbeat } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { readBusy, writeBusy, writeHeartbeat, type HeartbeatKind } from '@baton/store/heartbeats'

type Deps = {
  readonly nats: Nats
  readonly run: string
  readonly relay: string
  readonly writeMs: number
  readonly ttlMs: Readonly<Record<HeartbeatKind, number>>
  /** The run is no longer ours. */
  readonly over: AbortSignal
}

const RETRY_MS = 1000

/**
 * The two heartbeats of a run: at once when there was none from this owner, then at most one write each in `writeMs`,
 * however fast the bytes come. A sign that cannot be written is kept until it can be: who waits for the next may wait long.
 */
export class RunHeartbeats {
  readonly #deps: Deps
  readonly #writtenAtMs: Record<HeartbeatKind, number> = { liveness: -Infinity, progress: -Infinity }
  readonly #writing = new Set<HeartbeatKind | 'busy'>()
  /** Until when each job has said it is busy, on the monotonic clock. */
  readonly #busyUntilMs = new Map<string, number>()
  #busyChanged = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  beat(kind: HeartbeatKind, job: string): void {
    const { nats, run, writeMs, ttlMs } = this.#deps
    const now = performance.now()
    if (now - this.#writtenAtMs[kind] < writeMs || this.#writing.has(kind)) return
    this.#writtenAtMs[kind] = now
    const value = this.#sign(job)
    this.#writing.add(kind)
    void this.#untilWritten(() => writeHeartbeat(nats, kind, run, value, ttlMs[kind])).finally(() =>
      this.#writing.delete(kind),
    )
  }

  /** The job says it will be busy for so long; its newest word counts, and the run is busy while any job is. */
  busy(job: string, forMs: number): void {
    this.#busyUntilMs.set(job, performance.now() + forMs)
    this.#busyChanged = true
    if (this.#writing.has('busy')) return
    this.#writing.add('busy')
    void this.#writeBusy()
  }

  async #writeBusy(): Promise<void> {
    const { nats, run, writeMs, ttlMs, over } = this.#deps
    await this.#untilWritten(async () => {
      // What an earlier owner was told by another job holds on.
      const before = await readBusy(nats, run)
      if (before !== null && before.overMs < 0 && !this.#busyUntilMs.has(before.job)) {
        this.#busyUntilMs.set(before.job, performance.now() - before.overMs)
      }
    })
    while (this.#busyChanged && !over.aborted) {
      this.#busyChanged = false
      await this.#untilWritten(() => {
        const [job, untilMs] = [...this.#busyUntilMs].reduce((last, one) => (one[1] > last[1] ? one : last))
        const forMs = Math.max(0, Math.round(untilMs - performance.now()))
        return writeBusy(nats, run, { ...this.#sign(job), forMs }, ttlMs.progress)
      })
      await pause(writeMs, over)
    }
    this.#writing.delete('busy')
  }

  #sign(job: string): Heartbeat {
    return { relay: this.#deps.relay, at: new Date().toISOString(), job }
  }

  async #untilWritten(write: () => Promise<void>): Promise<void> {
    const { over } = this.#deps
    while (!over.aborted) {
      try {
        return await write()
      } catch {
        await pause(RETRY_MS, over)
      }
    }
  }
}
