import { setTimeout as delay } from 'node:timers/promises'
import { BatonError } from '@baton/core/errors'
import { formatPosition, type Position } from '@baton/core/position'
import { Splice, type Heard } from '@baton/core/splice'
import type { Log } from '@baton/service/log'
import type { Client, Source } from './client.ts'
import { OwnEntry, PassedEntry } from './entry.ts'
import type { EdgeMetrics } from './metrics.ts'
import type { Pacer } from './pacer.ts'
import { Replay } from './replay.ts'
import { Ring } from './ring.ts'
import type { Event, Listening, Mending, Scope, Tail } from './scope.ts'
import type { Slots } from '@baton/service/slots'
import { within } from './within.ts'

export type FeedDeps = {
  readonly log: Log
  readonly metrics: EdgeMetrics
  readonly pacer: Pacer
  /** How many replays of this edge may read the log at once. */
  readonly slots: Slots
  /** How much the ring of one feed may hold, now. */
  readonly ringBytes: () => number
}

/** Live events held while what is missing before them is read; more are forgotten and read too. */
const MAX_AHEAD = 2000
const OPEN_TIMEOUT_MS = 3000
/** How old the oldest kept event may be that `stream.open` tells of. */
const FIRST_AGE_MS = 2000
const RETRY_MS = 500

/**
 * One run, topic or set as this edge follows it, for all its clients: what is heard live, whose holes are filled from
 * the log, and a ring of what came last. Every client gets the ring's entries; who is behind the ring comes by a replay.
 */
export class Feed<T extends Event> implements Source {
  readonly scope: Scope<T>
  readonly clients = new Set<Client>()
  readonly #deps: FeedDeps
  readonly #over = new AbortController()
  readonly #replays = new Set<Replay<T>>()
  /** Replays that are over, with clients that have not asked for more yet. */
  readonly #left = new Set<Replay<T>>()
  readonly #changed = new Set<() => void>()
  #ring: Ring
  #splice: Splice<T>
  #listening: Listening | null = null
  #early: Heard<T>[] | null = []
  /** Heard since there was doubt whether it is still the same log; null while there is none. */
  #doubted: Heard<T>[] | null = null
  #head: T | null = null
  #first: { place: Position | null; atMs: number } = { place: null, atMs: Number.NEGATIVE_INFINITY }
  #lookingForFirst: Promise<void> | null = null
  #refilling: Promise<void> | null = null
  #catchingUp = false
  /** How often it began anew with a new log, and that it is about to: several checks that see one tell of it once. */
  #beginnings = 0
  #beginning: Promise<void> | null = null
  #heardAtMs = performance.now()
  /** The newest replay from the oldest event, and the place that was before it. */
  #oldest: { readonly replay: Replay<T>; readonly place: Promise<Position> } | null = null

  constructor(scope: Scope<T>, deps: FeedDeps) {
    this.scope = scope
    this.#deps = deps
    const nowhere = { sequence: 0, mark: 0 }
    this.#ring = new Ring(nowhere, scope.marks)
    this.#splice = new Splice(nowhere, MAX_AHEAD, scope.order)
  }

  /** Listens, then looks where the log stands: what is stored in between is heard. Throws `unavailable`. */
  async open(): Promise<void> {
    const { scope } = this
    this.#listening = scope.listen((event) => this.#hear(event))
    await within(OPEN_TIMEOUT_MS, this.#listening.ready)
    const { last, head, first } = await scope.stand()
    this.#head = head
    this.#noteFirst(first)
    this.#ring = new Ring(last, scope.marks)
    const before = head !== null && head.sequence <= last.sequence ? head : null
    this.#splice = new Splice(last, MAX_AHEAD, scope.order, before)
    if (!this.closed) this.#listening.from(last)
    const early = this.#early ?? []
    this.#early = null
    for (const event of early) this.#hear(event)
  }

  get ring(): Ring {
    return this.#ring
  }

  /** Where this feed stands: it has everything up to here. */
  get last(): Position {
    return this.#splice.last
  }

  /** The newest event; null while none is known. */
  get head(): T | null {
    return this.#head
  }

  get closed(): boolean {
    return this.#over.signal.aborted
  }

  /** Clients at the ring and on their way to it, those who read too slowly for their replay to wait included. */
  get subscribers(): number {
    let count = this.clients.size
    for (const replay of [...this.#replays, ...this.#left]) count += replay.clients.size
    return count
  }

  get replays(): number {
    return this.#replays.size
  }

  /** When the last live event came, or the last check was made, on the monotonic clock. */
  get heardAtMs(): number {
    return this.#heardAtMs
  }

  /** The oldest event kept, as of a moment ago; as last known when the log does not answer. */
  async first(): Promise<Position | null> {
    if (performance.now() - this.#first.atMs > FIRST_AGE_MS) {
      // A crowd that comes at once asks once.
      this.#lookingForFirst ??= this.scope
        .first()
        .catch(() => this.#first.place)
        .then((first) => this.#noteFirst(first))
        .finally(() => (this.#lookingForFirst = null))
      await this.#lookingForFirst
    }
    return this.#first.place
  }

  /** Moves a client to this feed's ring, where its place is in it. */
  take(client: Client): boolean {
    const number = this.#ring.locate(client.place)
    if (number === null) return false
    client.attach(this, number)
    return true
  }

  /**
   * Finds a client the source that has what it needs next: the ring, a replay on its way, or a new one. `told`: it knows
   * that something may be gone before the first that it gets, by a reset or because it asked for what is kept.
   */
  join(client: Client, told = false): void {
    if (this.take(client)) return
    for (const replay of this.#replays) {
      const fits = replay.placed && (told || replay.owesAll)
      const number = fits ? replay.ring.locate(client.place) : null
      if (number === null) continue
      client.attach(replay, number)
      return
    }
    const replay = this.#replayFrom(client.place, told)
    client.attach(replay, replay.ring.next)
  }

  /** The client has all there is; what comes is flushed to it. */
  more(): boolean {
    return false
  }

  behind(client: Client): void {
    this.join(client)
  }

  forget(replay: Replay<T>): void {
    this.#replays.delete(replay)
    if (replay.clients.size > 0) this.#left.add(replay)
    for (const left of this.#left) if (left.clients.size === 0) this.#left.delete(left)
    if (this.#oldest?.replay === replay) this.#oldest = null
  }

  /**
   * The place before the oldest event kept, with a replay that holds what follows: where the log is at its limit that event
   * may be gone a moment after it was looked up. Shared by all who ask at once.
   */
  async oldest(): Promise<Position> {
    if (this.#ring.base.mark === 0) return this.#ring.base
    if (this.#oldest?.replay.whole !== true) this.#oldest = this.#beginOldest()
    return this.#oldest.place
  }

  #beginOldest(): { replay: Replay<T>; place: Promise<Position> } {
    const replay = this.#replayFrom(null, true)
    return { replay, place: replay.begin().then(() => replay.ring.base) }
  }

  #replayFrom(place: Position | null, told: boolean): Replay<T> {
    const replay = new Replay(this, this.#deps, place, told, this.#over.signal)
    this.#replays.add(replay)
    return replay
  }

  /** Gives all clients what is new. */
  flush(): void {
    for (const client of this.clients) client.flush()
    for (const listener of this.#changed) listener()
  }

  /** Waits until something new has come. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#changed.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      this.#changed.add(wake)
      signal.addEventListener('abort', wake, { once: true })
    })
  }

  /** Reads what is missing from the log, once and then on until it is `reached`; one reading at a time. */
  async refill(reached: (last: Position) => boolean): Promise<void> {
    let before: number
    do {
      before = this.last.sequence
      this.#refilling ??= this.#refill(reached).finally(() => (this.#refilling = null))
      await this.#refilling
    } while (!this.closed && !reached(this.last) && this.last.sequence !== before)
  }

  async #refill(reached: (last: Position) => boolean): Promise<void> {
    this.#deps.metrics.refilled()
    for await (const page of this.scope.pages(this.last, false, this.#over.signal)) {
      for (const event of page) await this.#read(event)
      if (!this.#splice.waiting && reached(this.last)) return
      // What was heard meanwhile goes further: it is not read page by page as well.
      if (this.last.sequence > (page.at(-1)?.sequence ?? this.last.sequence)) return
    }
  }

  async #read(event: T): Promise<void> {
    for (;;) {
      const { last } = this
      const next = this.#splice.read(event)
      if (next !== 'hole') return this.#push(next)
      const mending = await this.scope.mend(last, event)
      // What was heard meanwhile is whole: then the event is no longer the next one, and is looked at again.
      if (this.last !== last) continue
      this.#resetTo(mending)
      const again = this.#splice.read(event)
      return again === 'hole' ? undefined : this.#push(again)
    }
  }

  /** Asks the log whether anything came that was not heard. Throws `unavailable`. */
  async check(): Promise<void> {
    // While it opens it looks at the log anyway.
    if (this.#early !== null) return
    this.#heardAtMs = performance.now()
    if (this.scope.isOver(this.#head)) return
    // What is heard while the log is asked is newer than its answer: only what was here before can be missing there.
    const beginnings = this.#beginnings
    const tail = await this.scope.look(this.last)
    if (tail.kind !== 'anew') await this.#follow(tail)
    else if (beginnings === this.#beginnings) {
      await (this.#beginning ??= this.#startAnew().finally(() => (this.#beginning = null)))
    }
    this.#believe()
  }

  /** The connection was away, and the log may be another one now: what is heard waits for the next check. */
  distrust(): void {
    if (this.scope.order.contradicts !== undefined) this.#doubted ??= []
  }

  #believe(): void {
    const doubted = this.#doubted ?? []
    this.#doubted = null
    for (const event of doubted) this.#take(event)
  }

  /** Looks until it is known which log this is. */
  async #dispelDoubt(): Promise<void> {
    while (!this.closed && this.#doubted !== null) {
      await this.check().catch(() => undefined)
      if (this.#doubted === null) return
      await delay(RETRY_MS, undefined, { signal: this.#over.signal }).catch(() => undefined)
    }
  }

  /** Makes sure that it has the newest event there is, by the word of the log's leader. Throws `unavailable`. */
  async confirm(): Promise<void> {
    const head = await this.scope.head()
    if (head === null) return
    if (head.sequence > this.last.sequence) await this.refill(({ sequence }) => sequence >= head.sequence)
    if (head.sequence > this.last.sequence) {
      throw new BatonError('unavailable', `${this.scope.name}: its log lags behind`)
    }
    this.#head ??= head
  }

  async #follow(tail: Tail): Promise<void> {
    if (tail.kind === 'more') {
      await this.refill(tail.reached)
      // What should have been heard was not: it is heard from here on, or it was only slow.
      if (this.closed) return
      this.#splice.distrust()
      this.#listening?.from(this.last)
    }
    if (tail.kind === 'same' && tail.passed !== null) this.#pass(tail.passed)
  }

  /** Clients that got nothing move on all the same: what they come back with is not trimmed, however busy others are. */
  #pass(place: Position): void {
    if (place.sequence <= this.last.sequence || this.#splice.waiting) return
    this.#splice.advance(place)
    this.#ring.push(new PassedEntry(place))
    this.#ring.trim(this.#deps.ringBytes())
    this.#deps.pacer.mark(this)
  }

  async #startAnew(): Promise<void> {
    const { place, block, tail } = await this.scope.anew(this.last)
    this.#beginnings++
    this.#ring.clear(this.#ring.last)
    this.#head = null
    this.#resetTo({ place, block, until: place.sequence })
    for (const replay of this.#replays) {
      for (const client of replay.clients) client.attach(this, this.#ring.next - 1)
      replay.close()
    }
    this.#listening?.from(place)
    await this.#follow(tail)
  }

  #resetTo({ place, block, until }: Mending): void {
    const [from, to] = [formatPosition(this.last), formatPosition(place)]
    this.#deps.log.warn({ feed: this.scope.name, from, to }, 'feed.reset')
    this.#deps.metrics.feedReset()
    if (place.sequence < this.last.sequence) this.#ring.clear(place)
    this.#splice.restart(place, until)
    this.#ring.push(new OwnEntry(place, block, until))
    this.#deps.pacer.mark(this)
  }

  #hear(event: Heard<T>): void {
    if (this.#early !== null) {
      if (this.#early.length < MAX_AHEAD) this.#early.push(event)
      return
    }
    if (this.#doubted === null && this.scope.order.contradicts?.(this.last, event) === true) {
      this.#doubted = []
      void this.#dispelDoubt()
      return
    }
    if (this.#doubted === null) return this.#take(event)
    // What is forgotten here is named by none of those that follow, and is read then.
    if (this.#doubted.length < MAX_AHEAD) this.#doubted.push(event)
  }

  #take(event: Heard<T>): void {
    const next = this.#splice.live(event)
    if (next.length > 0) this.#heardAtMs = performance.now()
    this.#push(next)
    if (this.#splice.waiting && !this.#catchingUp) void this.#catchUp()
  }

  /** A hole was heard: fills it, however long NATS takes. */
  async #catchUp(): Promise<void> {
    this.#catchingUp = true
    while (!this.closed && this.#splice.waiting) {
      const before = this.last.sequence
      let pauses = false
      try {
        await this.refill(() => true)
        pauses = this.#splice.waiting && (await this.#disowns())
      } catch (error) {
        if (this.closed) return
        this.#deps.log.warn({ feed: this.scope.name, err: error }, 'refill.failed')
        // It may be another stream by now, which no reading of it mends.
        await this.check().catch(() => undefined)
      }
      pauses ||= this.#splice.waiting && this.last.sequence === before
      if (pauses) await delay(RETRY_MS, undefined, { signal: this.#over.signal }).catch(() => undefined)
    }
    this.#catchingUp = false
  }

  /**
   * What was heard is not in the log that was read: is some of it not in its leader's either? Then anybody may have
   * published it, and it is forgotten.
   */
  async #disowns(): Promise<boolean> {
    const head = await this.scope.head()
    const beyond = head?.sequence ?? 0
    if (this.#splice.newestHeard <= beyond) return false
    this.#deps.log.warn({ feed: this.scope.name, heard: this.#splice.newestHeard, stored: beyond }, 'live.disowned')
    this.#splice.disown(beyond)
    // What was stored and heard since the leader was asked is forgotten as well.
    await this.check()
    return true
  }

  #push(events: readonly T[]): void {
    const [newest] = events.slice(-1)
    if (newest === undefined) return
    for (const event of events) this.#ring.push(this.scope.entry(event))
    this.#head = newest
    this.#ring.trim(this.#deps.ringBytes())
    this.#deps.pacer.mark(this)
  }

  #noteFirst(place: Position | null): void {
    this.#first = { place, atMs: performance.now() }
  }

  /** Ends the subscription and whatever is being read. Clients are closed by whoever has opened them. */
  close(): void {
    if (this.closed) return
    this.#over.abort(new BatonError('unavailable', `the feed of ${this.scope.name} was closed`))
    this.#listening?.close()
  }
}
