import { setTimeout as delay } from 'node:timers/promises'
import { END, readEnd, type RunEnd, type StoredEvent } from '@baton/core/event'
import { BatonError } from '@baton/core/errors'
import { startOf, type Place } from '@baton/core/servable'
import { Splice, type Heard } from '@baton/core/splice'
import type { Log } from '@baton/service/log'
import type { Nats } from '@baton/store/connect'
import { followLive, type Live } from '@baton/store/live'
import { readExtent, readHead, readNext, readStream, type Extent } from '@baton/store/read-log'
import { replayRun } from '@baton/store/replay'
import type { Client, Source } from './client.ts'
import { EventEntry, OwnEntry } from './entry.ts'
import { mend, position, resetBlock } from './mend.ts'
import type { EdgeMetrics } from './metrics.ts'
import type { Pacer } from './pacer.ts'
import { Replay } from './replay.ts'
import { Ring } from './ring.ts'
import type { Slots } from './slots.ts'
import { within } from './within.ts'

export type FeedDeps = {
  readonly nats: Nats
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
 * One run as this edge follows it, for all its clients: a live subscription whose holes are filled from the log, and a
 * ring of what came last. Every client gets the ring's entries; who is behind the ring comes by a replay.
 */
export class Feed implements Source {
  readonly run: string
  readonly clients = new Set<Client>()
  readonly #deps: FeedDeps
  readonly #over = new AbortController()
  readonly #replays = new Set<Replay>()
  /** Replays that are over, with clients that have not asked for more yet. */
  readonly #left = new Set<Replay>()
  readonly #changed = new Set<() => void>()
  #ring = new Ring({ sequence: 0, index: 0 })
  #splice: Splice<StoredEvent> = new Splice({ sequence: 0, index: 0 }, MAX_AHEAD)
  #live: Live | null = null
  #early: Heard<StoredEvent>[] | null = []
  #head: StoredEvent | null = null
  #first: { place: Place | null; atMs: number } = { place: null, atMs: Number.NEGATIVE_INFINITY }
  #lookingForFirst: Promise<void> | null = null
  #refilling: Promise<void> | null = null
  #catchingUp = false
  #heardAtMs = performance.now()
  /** The newest replay from the oldest event, and the place that was before it. */
  #oldest: { readonly replay: Replay; readonly place: Promise<Place> } | null = null

  constructor(run: string, deps: FeedDeps) {
    this.run = run
    this.#deps = deps
  }

  /** Subscribes, then looks where the log stands: what is stored in between is heard. Throws `unavailable`. */
  async open(): Promise<void> {
    this.#live = followLive(this.#deps.nats, this.run, (event) => this.#hear(event))
    await within(OPEN_TIMEOUT_MS, this.#live.ready)
    const extent = await readExtent(this.#deps.nats, this.run, 'any')
    const last: Place = extent.head ?? extent.checkpoint ?? { sequence: 0, index: 0 }
    this.#head = extent.head
    this.#noteFirst(extent)
    this.#ring = new Ring({ sequence: last.sequence, index: last.index })
    this.#splice = new Splice({ sequence: last.sequence, index: last.index }, MAX_AHEAD)
    const early = this.#early ?? []
    this.#early = null
    for (const event of early) this.#hear(event)
  }

  get ring(): Ring {
    return this.#ring
  }

  /** The place of the newest event this feed has, or where the run stands when nothing is kept of it. */
  get last(): Place {
    return this.#splice.last
  }

  /** The newest event; null while none is known. */
  get head(): StoredEvent | null {
    return this.#head
  }

  /** How the run ended, once it has. */
  get end(): RunEnd | null {
    return this.#head?.type === END ? readEnd(this.#head.data) : null
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
  async first(): Promise<Place | null> {
    if (performance.now() - this.#first.atMs > FIRST_AGE_MS) {
      // A crowd that comes at once asks once.
      this.#lookingForFirst ??= readNext(this.#deps.nats, this.run, 0, 'any')
        .catch(() => this.#first.place)
        .then((first) => this.#noteFirst({ first }))
        .finally(() => (this.#lookingForFirst = null))
      await this.#lookingForFirst
    }
    return this.#first.place
  }

  /** Moves a client to this feed's ring, where its place is in it. */
  take(client: Client): boolean {
    const { sequence, index } = client.place
    const number = this.#ring.locate({ sequence, mark: index })
    if (number === null) return false
    client.attach(this, number)
    return true
  }

  /** Finds a client the source that has what it needs next: the ring, a replay on its way, or a new one. */
  join(client: Client): void {
    if (this.take(client)) return
    const { sequence, index } = client.place
    for (const replay of this.#replays) {
      const number = replay.placed ? replay.ring.locate({ sequence, mark: index }) : null
      if (number === null) continue
      client.attach(replay, number)
      return
    }
    const replay = this.#replayFrom(client.place)
    client.attach(replay, replay.ring.next)
  }

  /** The client has all there is; what comes is flushed to it. */
  more(): boolean {
    return false
  }

  behind(client: Client): void {
    this.join(client)
  }

  forget(replay: Replay): void {
    this.#replays.delete(replay)
    if (replay.clients.size > 0) this.#left.add(replay)
    for (const left of this.#left) if (left.clients.size === 0) this.#left.delete(left)
    if (this.#oldest?.replay === replay) this.#oldest = null
  }

  /**
   * The place before the oldest event kept, with a replay that holds what follows: on a run at its limit that event
   * may be gone a moment after it was looked up. Shared by all who ask at once.
   */
  async oldest(): Promise<Place> {
    if (this.#ring.base.index === 0) return this.#ring.base
    if (this.#oldest?.replay.whole !== true) this.#oldest = this.#beginOldest()
    return this.#oldest.place
  }

  #beginOldest(): { replay: Replay; place: Promise<Place> } {
    const replay = this.#replayFrom(null)
    return { replay, place: replay.begin().then(() => replay.ring.base) }
  }

  #replayFrom(place: Place | null): Replay {
    const replay = new Replay(this, this.#deps, place, this.#over.signal)
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
      const settle = () => {
        this.#changed.delete(settle)
        signal.removeEventListener('abort', settle)
        resolve()
      }
      this.#changed.add(settle)
      signal.addEventListener('abort', settle, { once: true })
    })
  }

  /** Reads what is missing from the log, once and then on up to the event `index`; one reading at a time. */
  async refill(index: number): Promise<void> {
    let before: number
    do {
      before = this.last.sequence
      this.#refilling ??= this.#refill(index).finally(() => (this.#refilling = null))
      await this.#refilling
    } while (!this.closed && this.last.index < index && this.last.sequence !== before)
  }

  async #refill(index: number): Promise<void> {
    const { nats, metrics } = this.#deps
    metrics.refilled()
    for await (const page of replayRun(nats, this.run, this.last.sequence, this.#over.signal)) {
      for (const event of page) await this.#read(event)
      if (!this.#splice.waiting && this.last.index >= index) return
    }
  }

  async #read(event: StoredEvent): Promise<void> {
    const next = this.#splice.read(event)
    if (next !== 'hole') return this.#push(next)
    const { place, block } = await mend(this.#deps.nats, this.run, this.last)
    this.#resetTo(place, block)
    const again = this.#splice.read(event)
    if (again !== 'hole') this.#push(again)
  }

  /** Asks the log whether anything came that was not heard. Throws `unavailable`. */
  async check(): Promise<void> {
    // While it opens it looks at the log anyway.
    if (this.#early !== null) return
    this.#heardAtMs = performance.now()
    if (this.end !== null) return
    const { nats } = this.#deps
    // What is heard while the log is asked is newer than its answer: only what was here before can be missing there.
    const before = this.last.sequence
    const head = await readHead(nats, this.run, 'any')
    if (head !== null && head.sequence > this.last.sequence) return this.refill(head.index)
    if (before === 0 || (head !== null && head.sequence >= before)) return
    const { lastSequence } = await readStream(nats)
    if (lastSequence < before) await this.#startAnew()
  }

  /** Makes sure that it has the newest event there is, by the word of the log's leader. Throws `unavailable`. */
  async confirm(): Promise<void> {
    const head = await readHead(this.#deps.nats, this.run, 'leader')
    if (head === null) return
    if (head.sequence > this.last.sequence) await this.refill(head.index)
    if (head.sequence > this.last.sequence) throw new BatonError('unavailable', `run ${this.run}: its log lags behind`)
    this.#head ??= head
  }

  /** The stream was made anew: its sequences mean other events now. */
  async #startAnew(): Promise<void> {
    const extent = await readExtent(this.#deps.nats, this.run, 'leader')
    const place = startOf(extent)
    const block = resetBlock(this.run, { reason: 'recreated', requested: position(this.last), place, missed: null })
    this.#resetTo(place, block)
    if (extent.head !== null) await this.refill(extent.head.index)
  }

  #resetTo(place: Place, block: string): void {
    this.#deps.log.warn({ run: this.run, from: position(this.last), to: position(place) }, 'feed.reset')
    if (place.sequence < this.last.sequence) this.#ring.clear(place)
    this.#splice.restart(place)
    this.#ring.push(new OwnEntry(place, block))
    this.#deps.pacer.mark(this)
  }

  #hear(event: Heard<StoredEvent>): void {
    if (this.#early !== null) {
      if (this.#early.length < MAX_AHEAD) this.#early.push(event)
      return
    }
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
        await this.refill(0)
        pauses = this.#splice.waiting && (await this.#disowns())
      } catch (error) {
        if (this.closed) return
        this.#deps.log.warn({ run: this.run, err: error }, 'refill.failed')
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
    const head = await readHead(this.#deps.nats, this.run, 'leader')
    const beyond = head?.sequence ?? 0
    if (this.#splice.newestHeard <= beyond) return false
    this.#deps.log.warn({ run: this.run, heard: this.#splice.newestHeard, stored: beyond }, 'live.disowned')
    this.#splice.disown(beyond)
    // What was stored and heard since the leader was asked is forgotten as well.
    await this.check()
    return true
  }

  #push(events: readonly StoredEvent[]): void {
    const [newest] = events.slice(-1)
    if (newest === undefined) return
    for (const event of events) this.#ring.push(new EventEntry(event))
    this.#head = newest
    this.#ring.trim(this.#deps.ringBytes())
    this.#deps.pacer.mark(this)
  }

  #noteFirst({ first }: Pick<Extent, 'first'> | { first: Place | null }): void {
    const place = first === null ? null : { sequence: first.sequence, index: first.index }
    this.#first = { place, atMs: performance.now() }
  }

  /** Ends the subscription and whatever is being read. Clients are closed by whoever has opened them. */
  close(): void {
    if (this.closed) return
    this.#over.abort(new BatonError('unavailable', `the feed of run ${this.run} was closed`))
    this.#live?.close()
  }
}
