import { setTimeout as delay } from 'node:timers/promises'
import type { Nats } from './connect.ts'
import { viewStream, type StreamView } from './timed-log.ts'

/** Questions to one leader come no closer than this, however many wait for an answer. */
const PAUSE_MS = 3

/**
 * The leader's view of a stream, shared by all who want one: everybody gets the answer to a question that was asked
 * after they came, and only one is under way at a time.
 */
export class StreamViews {
  readonly #nats: Nats
  readonly #waiting = new Map<string, Promise<StreamView>>()
  readonly #asking = new Map<string, Promise<unknown>>()

  constructor(nats: Nats) {
    this.#nats = nats
  }

  /** Throws `unavailable`; `not_found` where there is no such stream. */
  read(stream: string): Promise<StreamView> {
    const waiting = this.#waiting.get(stream)
    if (waiting !== undefined) return waiting
    const before = this.#asking.get(stream)
    if (before === undefined) return this.#ask(stream)
    const next = this.#askAfter(before, stream)
    this.#waiting.set(stream, next)
    return next
  }

  async #askAfter(before: Promise<unknown>, stream: string): Promise<StreamView> {
    await before.catch(() => undefined)
    await delay(PAUSE_MS)
    // Whoever comes from now on is too late for this question.
    this.#waiting.delete(stream)
    return this.#ask(stream)
  }

  async #ask(stream: string): Promise<StreamView> {
    const asking = viewStream(this.#nats, stream)
    this.#asking.set(stream, asking)
    try {
      return await asking
    } finally {
      if (this.#asking.get(stream) === asking) this.#asking.delete(stream)
    }
  }
}
