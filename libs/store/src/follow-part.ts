import type { Consumer, ConsumerMessages } from '@nats-io/jetstream'
import { nuid } from '@nats-io/nats-core'
import { setTimeout as delay } from 'node:timers/promises'
import type { Position } from '@baton/core/position'
import type { TimedEvent } from '@baton/core/timed'
import type { Nats } from './connect.ts'
import type { Part } from './replay.ts'
import { fromConsumer } from './timed.ts'

/** Shorter than what nats.js waits by itself: a consumer that is gone is noticed within two of these. */
const IDLE_HEARTBEAT_MS = 1000
const EXPIRES_MS = 5000
/** Asked for at once: bounds what the client holds of a part that is faster than this process. */
const MAX_MESSAGES = 500
/** Held here while those before them are looked at; then nothing more is taken from the consumer. */
const MAX_HELD = 500
/** What the server keeps of a consumer whose edge was killed. */
const INACTIVE_MS = 30_000
const RETRY_MS = 250

/**
 * Takes what came after a position; answers the position that is reached with it. Once the signal is aborted another
 * consumer brings them, from a place of its own.
 */
type OnEvents = (after: Position, events: readonly TimedEvent[], signal: AbortSignal) => Promise<Position>

/**
 * The live events of several subjects through one ordered consumer: consecutive, whatever the subjects. It can go silent
 * for long or for good, as those of nats.js do when a node is lost: whoever follows checks the log and calls `restart`.
 */
export class PartFollower {
  readonly #nats: Nats
  readonly #part: Part
  readonly #begin: () => OnEvents
  readonly #verify: () => Promise<unknown>
  readonly #over = new AbortController()
  /** Ends the consumer that is followed now. */
  #current = new AbortController()

  /**
   * `begin` is asked once for each consumer, and what it answers gets what has come while it was busy with what came
   * before: it may remember where that consumer stands. `verify` is asked before each consumer is made; where it throws
   * none is.
   */
  constructor(nats: Nats, part: Part, begin: () => OnEvents, verify: () => Promise<unknown>) {
    this.#nats = nats
    this.#part = part
    this.#begin = begin
    this.#verify = verify
  }

  /** Follows from the message after this position on, by a new consumer. */
  restart(after: Position): void {
    this.#current.abort(new Error('another consumer takes over'))
    if (this.#over.signal.aborted) return
    const current = new AbortController()
    this.#current = current
    void this.#follow(after, current.signal)
  }

  close(): void {
    this.#over.abort(new Error('nobody follows any more'))
    this.#current.abort(new Error('nobody follows any more'))
  }

  async #follow(after: Position, signal: AbortSignal): Promise<void> {
    const place = { after }
    while (!signal.aborted) {
      try {
        await this.#consume(place, signal)
      } catch {
        // NATS is away, or the stream: the tail check says so, and this goes on when it is back.
      }
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined)
    }
  }

  /** Until its consumer ends or stays silent; `place` says then where it stood. */
  async #consume(place: { after: Position }, signal: AbortSignal): Promise<void> {
    await this.#verify()
    const consumer = await this.#make(place.after.sequence + 1)
    const messages = await consumer.consume({
      max_messages: MAX_MESSAGES,
      expires: EXPIRES_MS,
      idle_heartbeat: IDLE_HEARTBEAT_MS,
    })
    const stop = () => void messages.close()
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    void this.#watch(messages)
    const handing = new Handing(place, this.#begin(), signal, stop)
    try {
      for await (const message of messages) {
        if (signal.aborted || handing.isRefused) break
        const event = fromConsumer(message)
        if (event !== null) handing.add(event)
        if (handing.isFull) await handing.done
      }
    } finally {
      signal.removeEventListener('abort', stop)
      await messages.close()
      void consumer.delete().catch(() => undefined)
      // However it ended, what it brought is whole, and the next consumer begins behind what was taken of that.
      await handing.done
    }
  }

  #make(from: number): Promise<Consumer> {
    const { stream, subjects } = this.#part
    return this.#nats.js.consumers.get(stream, {
      name_prefix: `baton-follow-${nuid.next()}`,
      filter_subjects: subjects.length === 1 ? (subjects[0] as string) : [...subjects],
      opt_start_seq: from,
      inactive_threshold: INACTIVE_MS,
    })
  }

  /** nats.js repairs what it can by itself, slowly; a new consumer is quicker than to wait for that. */
  async #watch(messages: ConsumerMessages): Promise<void> {
    for await (const { type } of messages.status()) {
      if (type === 'heartbeats_missed' || type === 'consumer_not_found' || type === 'consumer_deleted') {
        await messages.close()
        return
      }
    }
  }
}

/** Hands on what one consumer brings, in its order: what has come while the last of it was taken goes on together. */
class Handing {
  /** Resolves when all that was added has been taken, or is not wanted any more. */
  done: Promise<void> = Promise.resolve()
  /** What was not taken comes again, from the next consumer: nothing of this one that came after it may be handed on. */
  isRefused = false
  readonly #place: { after: Position }
  readonly #onEvents: OnEvents
  readonly #signal: AbortSignal
  readonly #onRefused: () => void
  #held: TimedEvent[] = []
  #isBusy = false

  constructor(place: { after: Position }, onEvents: OnEvents, signal: AbortSignal, onRefused: () => void) {
    this.#place = place
    this.#onEvents = onEvents
    this.#signal = signal
    this.#onRefused = onRefused
  }

  get isFull(): boolean {
    return this.#held.length >= MAX_HELD
  }

  add(event: TimedEvent): void {
    this.#held.push(event)
    if (!this.#isBusy) this.done = this.#hand()
  }

  async #hand(): Promise<void> {
    this.#isBusy = true
    try {
      while (this.#held.length > 0 && !this.#signal.aborted && !this.isRefused) {
        const events = this.#held
        this.#held = []
        this.#place.after = await this.#onEvents(this.#place.after, events, this.#signal)
      }
    } catch {
      this.isRefused = true
      this.#onRefused()
    } finally {
      // In the same step as the last look at what is held: what comes later begins anew.
      this.#isBusy = false
    }
  }
}
