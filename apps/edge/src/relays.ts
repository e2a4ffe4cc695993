import { WATCHDOG, type Beat } from '@baton/core/records'
import type { Nats } from '@baton/store/connect'
import { onBeats } from '@baton/store/peers'

export type RelayView = Beat & { readonly beatAgeMs: number }

/** A relay that has said nothing for so long is not shown any more. */
const FORGOTTEN_MS = 10_000
/** Anybody who may publish can invent beats; a crowd of them must not grow here. */
const MAX_RELAYS = 1000

/** The relays as their beats show them. */
export class Relays {
  readonly #beats = new Map<string, { beat: Beat; atMs: number }>()

  constructor(nats: Nats, signal: AbortSignal) {
    onBeats(
      nats,
      (beat) => {
        // One that ends an orphan beats as a relay does, so that relays leave its claim alone.
        if (beat.relay === WATCHDOG) return
        if (this.#beats.has(beat.boot) || this.#beats.size < MAX_RELAYS) {
          this.#beats.set(beat.boot, { beat, atMs: performance.now() })
        }
      },
      signal,
    )
  }

  list(): readonly RelayView[] {
    const nowMs = performance.now()
    for (const [boot, { atMs }] of this.#beats) if (nowMs - atMs > FORGOTTEN_MS) this.#beats.delete(boot)
    return [...this.#beats.values()]
      .map(({ beat, atMs }) => ({ ...beat, beatAgeMs: Math.round(nowMs - atMs) }))
      .sort((one, other) => (one.relay < other.relay ? -1 : 1))
  }
}
