import { BatonError } from '@baton/core/errors'
import type { Position } from '@baton/core/position'
import type { TimedEvent } from '@baton/core/timed'
import type { Nats } from '@baton/store/connect'
import type { Part } from '@baton/store/replay'
import { lastUpTo, readNextOf } from '@baton/store/timed-log'

type Place = { readonly index: number; readonly sequence: number }

/**
 * Where each run of a set stands. What one consumer delivers is consecutive, but it is what one node of NATS has, and a node
 * whose disk was full, or that is being caught up, may lack for a moment what it has later. The index of a run shows it.
 */
export class RunIndexes {
  readonly #nats: Nats
  readonly #part: Part
  readonly #places = new Map<string, Place>()
  /** The sequence up to which this holds; null before it was loaded. */
  #at: number | null = null

  constructor(nats: Nats, part: Part) {
    this.#nats = nats
    this.#part = part
  }

  /**
   * The events that follow `after`. One in front of which something is gone for good has that as its loss. Throws
   * `unavailable` where something is missing that the log has: it must be read again.
   */
  async follow(after: Position | null, events: readonly TimedEvent[]): Promise<readonly TimedEvent[]> {
    if (after !== null && after.sequence !== this.#at) await this.#load(after.sequence)
    const followed: TimedEvent[] = []
    for (const event of events) followed.push(await this.#next(event))
    this.#at = events.at(-1)?.sequence ?? this.#at
    return followed
  }

  /** Of a run that has nothing up to there nothing is known, and what comes first is believed. */
  async #load(sequence: number): Promise<void> {
    this.#places.clear()
    for (const found of await lastUpTo(this.#nats, this.#part, sequence)) this.#note(found)
  }

  async #next(timed: TimedEvent): Promise<TimedEvent> {
    const { event, loss, subject } = timed
    if (!('run' in event)) return timed
    const before = this.#places.get(subject)
    const isNext = before === undefined || loss !== null || event.index <= before.index + 1
    const known = isNext ? timed : await this.#gone(timed, before)
    this.#note(known)
    return known
  }

  /** Is what lies between really gone? Whoever leads the log and has the event after it must say so. */
  async #gone(timed: TimedEvent, { sequence, index }: Place): Promise<TimedEvent> {
    const part = { stream: this.#part.stream, subjects: [timed.subject] }
    const next = await readNextOf(this.#nats, part, sequence)
    if (next?.sequence === timed.sequence) return { ...timed, loss: { until: timed.sequence - 1 } }
    throw new BatonError('unavailable', `${timed.subject}: something is missing after index ${index} that the log has`)
  }

  #note({ event, subject, sequence }: TimedEvent): void {
    if ('run' in event) this.#places.set(subject, { index: event.index, sequence })
  }
}
