import { setTimeout as delay } from 'node:timers/promises'
import type { Position } from '@baton/core/position'
import { Splice } from '@baton/core/splice'
import type { Client, Source } from './client.ts'
import { OwnEntry, PassedEntry } from './entry.ts'
import type { Feed, FeedDeps } from './feed.ts'
import { Ring } from './ring.ts'
import type { Event } from './scope.ts'

/** What clients have taken is kept so far back for others on the same way. */
const WINDOW_BYTES = 2 ** 20
/** A replay nobody asks for more has its place in the queue taken by another. */
const IDLE_MS = 1000
const RETRY_MS = 500

/**
 * The way from a position that its feed no longer holds to where it does. Pages are read when a client asks for more
 * and shared by all that are on the same way; how far a slow one has come stays its own matter.
 */
export class Replay<T extends Event> implements Source {
  readonly ring: Ring
  readonly clients = new Set<Client>()
  readonly #feed: Feed<T>
  readonly #deps: FeedDeps
  readonly #splice: Splice<T>
  readonly #over: AbortController
  readonly #waiting = new Set<Client>()
  /** Everything after its start, also what the log has lost, is here or told of. An index always tells. */
  readonly owesAll: boolean
  #told: boolean
  #fromOldest: boolean
  #pages: AsyncGenerator<readonly T[], void, void> | null = null
  #giveBack: (() => void) | null = null
  #filling = false
  /** The sequence that was the last one when the log had no more. */
  #endedAt: number | null = null
  #idle: NodeJS.Timeout | null = null

  /**
   * `start` null: from the oldest event kept, whichever that is when the first page is read. `told`: for clients that know
   * that something may be gone before what they get first.
   */
  constructor(feed: Feed<T>, deps: FeedDeps, start: Position | null, told: boolean, signal: AbortSignal) {
    const base = start ?? { sequence: 0, mark: 0 }
    this.#feed = feed
    this.#deps = deps
    this.#told = told
    this.owesAll = !told || feed.scope.marks === 'indexes'
    this.#fromOldest = start === null
    this.ring = new Ring(base, feed.scope.marks)
    this.#splice = new Splice(base, 0, feed.scope.order)
    this.#over = new AbortController()
    signal.addEventListener('abort', () => this.close(), { once: true, signal: this.#over.signal })
    deps.metrics.replayed()
  }

  /** Reads the first page of a replay from the oldest event; only then is it known where that is. */
  async begin(): Promise<void> {
    this.#filling = true
    try {
      await this.#page()
    } catch (error) {
      this.close()
      throw error
    } finally {
      this.#filled()
    }
  }

  /** It knows where it starts. */
  get placed(): boolean {
    return !this.#fromOldest
  }

  get closed(): boolean {
    return this.#over.signal.aborted
  }

  /** It still holds all it has read. */
  get whole(): boolean {
    return !this.closed && this.ring.first === 0
  }

  more(client: Client): boolean {
    if (this.#feed.take(client)) {
      if (this.clients.size === 0) this.#rest()
      return true
    }
    if (this.closed) {
      this.#feed.join(client)
      return true
    }
    this.#waiting.add(client)
    if (!this.#filling) void this.#fill()
    return false
  }

  behind(client: Client): void {
    this.#feed.join(client)
  }

  /** Gives up its consumer, its window and its turn. Clients still on the way find another replay when they can go on. */
  close(): void {
    if (this.closed) return
    this.#over.abort(new Error('the replay ended'))
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#stopReading()
    this.ring.clear(this.ring.last)
    this.#feed.forget(this)
  }

  async #fill(): Promise<void> {
    this.#filling = true
    try {
      await this.#page()
    } catch (error) {
      if (!this.closed) this.#deps.log.warn({ feed: this.#feed.scope.name, err: error }, 'replay.failed')
      this.#stopReading()
      await delay(RETRY_MS, undefined, { signal: this.#over.signal }).catch(() => undefined)
    }
    this.#filled()
  }

  #filled(): void {
    this.#filling = false
    this.#rest()
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    // Whoever wants more after this page asks for it again.
    for (const client of waiting) client.flush()
  }

  async #page(): Promise<void> {
    const { signal } = this.#over
    const { scope } = this.#feed
    this.#giveBack ??= await this.#deps.slots.take(signal)
    if (this.#pages === null) {
      // Begun anew in the middle it owes everything: what came before has been seen.
      this.#pages = scope.pages(this.#fromOldest ? null : this.#splice.last, this.#told, signal)
      this.#told = false
    }
    const page = await this.#pages.next()
    if (page.done === true) {
      this.#pages = null
      await this.#atTheEnd()
      return
    }
    this.ring.trim(WINDOW_BYTES)
    for (const event of page.value) await this.#add(event)
  }

  async #add(event: T): Promise<void> {
    const { scope } = this.#feed
    if (this.#fromOldest) this.#startAt(await scope.before(event))
    let next = this.#splice.read(event)
    if (next === 'hole') {
      const { place, block, until } = await scope.mend(this.#splice.last, event)
      this.#splice.restart(place)
      this.ring.push(new OwnEntry(place, block, until))
      next = this.#splice.read(event)
      if (next === 'hole') return
    }
    for (const one of next) this.ring.push(scope.entry(one))
  }

  /** The log has no more: the feed must have the rest. */
  async #atTheEnd(): Promise<void> {
    if (this.#fromOldest) this.#startAt((await this.#feed.scope.stand()).last)
    const { last } = this.#splice
    const feed = this.#feed
    const { base } = feed.ring
    if (base.sequence > last.sequence) {
      if (!(await feed.scope.isQuiet(last, base))) return await this.#readOn(last)
      this.#splice.advance(base)
      this.ring.push(new PassedEntry(base))
      return
    }
    if (feed.last.sequence >= last.sequence) return
    await feed.refill(({ sequence }) => sequence >= last.sequence)
    if (feed.last.sequence < last.sequence) await feed.check()
    if (feed.last.sequence < last.sequence) await delay(RETRY_MS, undefined, { signal: this.#over.signal })
  }

  /** There must be more, or there may be. Where the last reading brought nothing, it is gone, or the next one waits a little. */
  async #readOn(from: Position): Promise<void> {
    if (from.sequence === this.#endedAt) {
      if (await this.#passGone(from)) return
      await delay(RETRY_MS, undefined, { signal: this.#over.signal })
    }
    this.#endedAt = from.sequence
  }

  /**
   * What was kept when this began may have been purged since: then whoever is on the way is told so, and goes on where the
   * feed can serve it. Of what has ended the last event is given, which the feed knows.
   */
  async #passGone(from: Position): Promise<boolean> {
    const { scope, head, ring } = this.#feed
    const end = head !== null && scope.isOver(head) && ring.base.sequence >= head.sequence ? head : null
    const to = end === null ? ring.base : await scope.before(end)
    const gone = await scope.gone(from, to)
    if (gone === null) return false
    this.#splice.restart(gone.place)
    if (to.mark !== from.mark) this.ring.push(new OwnEntry(gone.place, gone.block, gone.until))
    if (end !== null) {
      this.#splice.read(end)
      this.ring.push(scope.entry(end))
    }
    return true
  }

  #startAt(place: Position): void {
    this.#fromOldest = false
    this.#splice.restart(place)
    this.ring.clear(place)
  }

  /** Nobody on the way: the consumer goes at once, the window a little later, for others may come the same way. */
  #rest(): void {
    if (this.closed) return
    if (this.#idle !== null) clearTimeout(this.#idle)
    if (this.clients.size === 0 && !this.#filling) this.#stopReading()
    this.#idle = setTimeout(() => (this.#filling ? this.#rest() : this.close()), IDLE_MS)
  }

  #stopReading(): void {
    void this.#pages?.return().catch(() => undefined)
    this.#pages = null
    this.#giveBack?.()
    this.#giveBack = null
  }
}
