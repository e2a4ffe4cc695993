import { hostname } from 'node:os'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { answerPings, sendBeat } from '@baton/store/peers'

export type Self = { readonly relay: string; readonly boot: string }

/**
 * What relays hear of this process: an answer to every ping, and beats while it holds a claim, so that they leave that
 * claim alone, and take it when this process dies. It says it is draining: it wants no runs.
 */
export class Presence {
  readonly #nats: Nats
  readonly #self: Self
  readonly #beatMs: number
  readonly #signal: AbortSignal
  #held = 0

  constructor(nats: Nats, self: Self, beatMs: number, signal: AbortSignal) {
    this.#nats = nats
    this.#self = self
    this.#beatMs = beatMs
    this.#signal = signal
    answerPings(nats, self.boot, signal)
  }

  /** Beats from before the first claim until after the last: `work` claims and releases. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#held++
    if (this.#held === 1) void this.#beat()
    try {
      return await work()
    } finally {
      this.#held--
      if (this.#held === 0) this.#say()
    }
  }

  async #beat(): Promise<void> {
    while (this.#held > 0 && !this.#signal.aborted) {
      this.#say()
      await pause(this.#beatMs, this.#signal)
    }
  }

  #say(): void {
    const { pid } = process
    sendBeat(this.#nats, { ...this.#self, pid, host: hostname(), runs: this.#held, draining: true, loopLagMs: 0 })
  }
}
