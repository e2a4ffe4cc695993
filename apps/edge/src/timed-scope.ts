import { BatonError } from '@baton/core/errors'
import { END, readEnd } from '@baton/core/event'
import { formatPosition, type Position } from '@baton/core/position'
import { setOrder, topicOrder, type TimedEvent } from '@baton/core/timed'
import type { Nats } from '@baton/store/connect'
import { PartFollower } from '@baton/store/follow-part'
import { followTopic } from '@baton/store/live'
import type { Losses } from '@baton/store/losses'
import { endsBefore } from '@baton/store/read-log'
import { replayPart, type Part } from '@baton/store/replay'
import type { StreamViews } from '@baton/store/stream-views'
import { fromConsumer } from '@baton/store/timed'
import { newestBetween, positionBefore, readLastOf, readNextOf, type StreamView } from '@baton/store/timed-log'
import { TimedEntry } from './entry.ts'
import { resetBlock } from './mend.ts'
import type { Listening, Mending, Scope, Standing, Tail } from './scope.ts'
import { RunEnds } from './run-ends.ts'
import { RunIndexes } from './run-indexes.ts'
import { Settled } from './settled.ts'

/** What reads the streams for all scopes of an edge. */
export type TimedStore = { readonly nats: Nats; readonly losses: Losses; readonly views: StreamViews }

export type TimedScopeOptions = {
  readonly key: string
  readonly name: string
  readonly part: Part
  /** The one topic this is, where it is one without wildcards: it is heard as it is republished. */
  readonly topic: string | null
  /** For sets of runs: these end. */
  readonly runs: readonly string[]
  /** Where the current state can be read; null where nobody said. */
  readonly state: string | null
}

/** A topic, several of them, or several runs: a part of a stream, in its order, at positions with a time. */
export class TimedScope implements Scope<TimedEvent> {
  readonly key: string
  readonly name: string
  readonly runs: readonly string[]
  readonly marks = 'times'
  readonly order
  readonly part: Part
  readonly state: string | null
  /** Of sets of runs. */
  readonly ends: RunEnds
  /** Runs of it that are known to have, or to have had, an event. */
  readonly seen = new Set<string>()
  readonly #options: TimedScopeOptions
  readonly #nats: Nats
  readonly #losses: Losses
  readonly #views: StreamViews
  #createdAtMs: number | null = null
  /** Nothing of this was stored between what the feed had then and here. */
  #passed: Position = { sequence: 0, mark: 0 }
  readonly #settled = new Settled()

  constructor({ nats, losses, views }: TimedStore, options: TimedScopeOptions) {
    this.key = options.key
    this.name = options.name
    this.runs = options.runs
    this.part = options.part
    this.state = options.state
    this.ends = new RunEnds(options.runs)
    this.#options = options
    this.#nats = nats
    this.#losses = losses
    this.#views = views
    this.order = options.topic === null ? setOrder : topicOrder
  }

  listen(hear: (event: TimedEvent) => void): Listening {
    const { topic } = this.#options
    if (topic !== null) return { ...followTopic(this.#nats, topic, hear), from: () => undefined }
    // Each new consumer makes sure first that it is still the same stream.
    const follower = new PartFollower(
      this.#nats,
      this.part,
      () => this.#hand(hear),
      () => this.#view(),
    )
    return {
      ready: Promise.resolve(),
      from: (position) => follower.restart(position),
      close: () => follower.close(),
    }
  }

  /** Looks at what one consumer brings, and hands it on. One that was replaced may still be at it: it has its own indexes. */
  #hand(hear: (event: TimedEvent) => void) {
    const indexes = this.#indexes()
    return async (after: Position, events: readonly TimedEvent[], signal: AbortSignal): Promise<Position> => {
      const base = after.sequence > this.#passed.sequence ? after : this.#passed
      const stream = this.#createdAtMs
      const looked = await this.#followed(indexes, after, await this.#afterLooking(base, events, null))
      this.#mustBe(stream)
      const [end] = looked.slice(-1)
      if (signal.aborted) return after
      for (const event of looked) hear(event)
      return end === undefined ? after : this.order.position(end)
    }
  }

  async stand(): Promise<Standing<TimedEvent>> {
    const view = await this.#view()
    const [head, first] = await Promise.all([readLastOf(this.#nats, this.part), this.first()])
    await this.#noteEnds()
    // What was stored since the look at the stream is heard, or read from there.
    return { last: view.last, head, first }
  }

  head(): Promise<TimedEvent | null> {
    return readLastOf(this.#nats, this.part)
  }

  async first(): Promise<Position | null> {
    const first = await readNextOf(this.#nats, this.part, 0)
    return first === null ? null : this.order.position(first)
  }

  /**
   * A page is looked at after it was read: what the log had lost before the page came is a loss in front of it. To whoever
   * was told, a topic owes what follows its own first event here, and nothing before it.
   */
  async *pages(
    after: Position | null,
    told: boolean,
    signal: AbortSignal,
  ): AsyncGenerator<readonly TimedEvent[], void, void> {
    const firsts = told ? new Map<string, number>() : null
    let base = after
    const stream = this.#createdAtMs
    const indexes = this.#indexes()
    for await (const messages of replayPart(this.#nats, this.part, after?.sequence ?? 0, signal)) {
      const events = messages.flatMap((message) => fromConsumer(message) ?? [])
      for (const { subject, sequence } of events) {
        if (firsts !== null && !firsts.has(subject)) firsts.set(subject, sequence)
      }
      const looked = base === null ? await this.#fromOldest(events) : await this.#afterLooking(base, events, firsts)
      const page = await this.#followed(indexes, base, looked)
      this.#mustBe(stream)
      const end = page.at(-1)
      if (end === undefined) continue
      for (const event of page) this.#note(event)
      yield page
      base = this.order.position(end)
    }
  }

  /** The first page from the oldest on: the oldest of a topic moves on while it is read. */
  async #fromOldest(events: readonly TimedEvent[]): Promise<readonly TimedEvent[]> {
    const view = await this.#view()
    const [start] = events
    return start === undefined || !mayLack(start.sequence - 1, view) ? events : this.#stillKept(events)
  }

  /**
   * The events that the log still has. Whatever was trimmed while they were read, of these none is missing in between: a
   * subject loses its oldest first. Where it has none of them any more it is the last one, before which all may be missing:
   * from a topic that forgets more quickly than it is read nobody would get anything, nor be told.
   */
  async #stillKept(events: readonly TimedEvent[]): Promise<readonly TimedEvent[]> {
    const { stream } = this.part
    const subjects = [...new Set(events.map(({ subject }) => subject))]
    const oldest = await Promise.all(
      subjects.map((subject) => readNextOf(this.#nats, { stream, subjects: [subject] }, 0)),
    )
    const from = new Map(subjects.map((subject, at) => [subject, oldest[at]?.sequence ?? Number.POSITIVE_INFINITY]))
    const kept = events.filter(({ subject, sequence }) => sequence >= (from.get(subject) ?? 0))
    return kept.length > 0 ? kept : events.slice(-1)
  }

  /** Events that came after `base`, in front of which the log may have lost something: a consumer steps over it. */
  async #afterLooking(
    base: Position,
    events: readonly TimedEvent[],
    firsts: ReadonlyMap<string, number> | null,
  ): Promise<readonly TimedEvent[]> {
    const view = await this.#view()
    if (!mayLack(base.sequence, view)) return events
    const owed = (subject: string) => Math.max(base.sequence, firsts?.get(subject) ?? Number.POSITIVE_INFINITY)
    const lost = await this.#losses.lost(this.part, base, view, firsts === null ? undefined : owed)
    if (!lost) return events
    // The loss may lie anywhere up to the end; what is told of it comes in front of all.
    const kept = await this.#stillKept(events)
    const loss = { until: kept.at(-1)?.sequence ?? base.sequence }
    return kept.map((event) => ({ ...event, loss }))
  }

  /** Events of topics have no index: of them it is not known. */
  #indexes(): RunIndexes | null {
    return this.#options.runs.length === 0 ? null : new RunIndexes(this.#nats, this.part)
  }

  async #followed(indexes: RunIndexes | null, after: Position | null, events: readonly TimedEvent[]) {
    return indexes === null ? events : indexes.follow(after, events)
  }

  async isQuiet(from: Position, to: Position): Promise<boolean> {
    const next = await readNextOf(this.#nats, this.part, from.sequence)
    if (next !== null) return next.sequence > to.sequence && this.#isWhole(from)
    const view = await this.#view()
    const newest = await this.#newestBetween(from, to, view)
    return newest === 0 || (newest === null && this.#isSettled(to))
  }

  /**
   * That there is nothing may be the word of one that no longer leads, or of one that leads and has not yet done all it was
   * told: where there are replicas, one that has everything up to there must say it. Null where none can.
   */
  async #newestBetween({ sequence }: Position, to: Position, { replicas }: StreamView): Promise<number | null> {
    return replicas <= 1 ? 0 : newestBetween(this.#nats, this.part, sequence, to.sequence)
  }

  /** Of topics, which do not end, `isQuiet` knows it. */
  async gone(): Promise<null> {
    return null
  }

  #isSettled({ sequence }: Position): boolean {
    return (this.#settled.position(performance.now())?.sequence ?? 0) >= sequence
  }

  /** Has nothing been lost since? What there was may be gone again by the time that it is asked for. */
  async #isWhole(from: Position): Promise<boolean> {
    const view = await this.#view()
    return !mayLack(from.sequence, view) || !(await this.#losses.lost(this.part, from, view))
  }

  before({ sequence }: TimedEvent): Promise<Position> {
    return positionBefore(this.#nats, this.part.stream, sequence)
  }

  async mend(last: Position, event: TimedEvent): Promise<Mending> {
    const place = await this.before(event)
    const requested = formatPosition(last)
    const block = resetBlock(this.state, { reason: 'trimmed', requested, place, missed: null })
    return { place, block, until: event.loss?.until ?? place.sequence }
  }

  async look(last: Position): Promise<Tail> {
    const view = await this.#views.read(this.part.stream)
    if (view.createdAtMs !== this.#createdAtMs) return { kind: 'anew' }
    if (view.lastSequence < last.sequence && (await endsBefore(this.#nats, this.part.stream, last.sequence))) {
      return { kind: 'anew' }
    }
    const next = await readNextOf(this.#nats, this.part, last.sequence)
    if (next === null) return this.#lookAgain(last, view)
    if (next.sequence > view.lastSequence && (await this.#isWhole(last))) return this.#same(view.last)
    return upTo(next.sequence)
  }

  /** Nothing was found after `last`. */
  async #lookAgain(last: Position, view: StreamView): Promise<Tail> {
    const newest = await this.#newestBetween(last, view.last, view)
    if (newest === 0) return this.#same(view.last)
    if (newest !== null) return upTo(newest)
    const nowMs = performance.now()
    this.#settled.note(view.last, nowMs)
    return this.#same(this.#settled.position(nowMs))
  }

  #same(passed: Position | null): Tail {
    if (passed !== null && passed.sequence > this.#passed.sequence) this.#passed = passed
    return { kind: 'same', passed }
  }

  async anew(last: Position): Promise<{ place: Position; block: string; tail: Tail }> {
    const { createdAtMs, last: place } = await this.#views.read(this.part.stream)
    const heads = await this.#readHeads()
    // Only here, in one step: until then whatever comes from the new stream is refused, for it follows nothing.
    this.#createdAtMs = createdAtMs
    this.#passed = { sequence: 0, mark: 0 }
    this.#settled.clear()
    this.ends.clear()
    this.seen.clear()
    for (const head of heads) this.#note(head)
    const requested = formatPosition(last)
    const block = resetBlock(this.state, { reason: 'recreated', requested, place, missed: null })
    return { place, block, tail: { kind: 'same', passed: null } }
  }

  entry(event: TimedEvent): TimedEntry {
    this.#note(event)
    return new TimedEntry(event, this.ends.areAll && event.sequence === this.ends.lastKept?.sequence)
  }

  isOver(head: TimedEvent | null): boolean {
    return this.ends.areAll && (head?.sequence ?? 0) >= this.ends.last
  }

  async #view(): Promise<StreamView> {
    const view = await this.#views.read(this.part.stream)
    this.#createdAtMs ??= view.createdAtMs
    if (view.createdAtMs !== this.#createdAtMs) {
      throw new BatonError('unavailable', `stream ${this.part.stream} was made anew, which is not settled yet`)
    }
    return view
  }

  /** What was read while another stream took the place of the one it was asked of may be of either. */
  #mustBe(stream: number | null): void {
    if (stream === null || stream === this.#createdAtMs) return
    throw new BatonError('unavailable', `stream ${this.part.stream} was made anew meanwhile`)
  }

  #note({ event, sequence }: TimedEvent): void {
    if (!('run' in event)) return
    this.seen.add(event.run)
    if (event.type === END) this.ends.note(event.run, sequence, readEnd(event.data))
  }

  async #noteEnds(): Promise<void> {
    for (const head of await this.#readHeads()) this.#note(head)
  }

  /** The newest event of each run; none of topics, which do not end. */
  async #readHeads(): Promise<readonly TimedEvent[]> {
    if (this.#options.runs.length === 0) return []
    const { stream, subjects } = this.part
    const heads = await Promise.all(subjects.map((subject) => readLastOf(this.#nats, { stream, subjects: [subject] })))
    return heads.filter((head) => head !== null)
  }
}

/**
 * May a part have lost anything after this sequence? A subject loses to its cap only when the stream has got at least
 * a whole cap since, and to age or size only from the beginning of the stream on.
 */
const mayLack = (sequence: number, { cap, firstSequence, lastSequence }: StreamView): boolean =>
  firstSequence > sequence + 1 || (cap > 0 && lastSequence - sequence > cap)

const upTo = (newest: number): Tail => ({ kind: 'more', reached: ({ sequence }) => sequence >= newest })
