import { setTimeout as delay } from 'node:timers/promises'
import { Splice } from '@baton/core/splice'
import type { StoredEvent } from '@baton/core/event'
import { startOf, type Place } from '@baton/core/servable'
import { readExtent } from '@baton/store/read-log'
import { replayRun } from '@baton/store/replay'
import type { Client, Source } from './client.ts'
import { EventEntry, OwnEntry } from './entry.ts'
import type { Feed, FeedDeps } from './feed.ts'
import { mend } from './mend.ts'
import { Ring } from './ring.ts'

/** What clients have taken is kept so far back for others on the same way. */
const WINDOW_BYTES = 2 ** 20
/** A replay nobody asks for more has its place in the queue taken by another. */
const IDLE_MS = 1000
const RETRY_MS = 500

/**
 * The way from a position that its feed no longer holds to where it does. Pages are read when a client asks for more
 * and shared by all that are on the same way; how far a slow one has come stays its own matter.
 */
export class Replay implements Source {
  readonly ring: Ring
  readonly clients = new Set<Client>()
  readonly #feed: Feed
  readonly #deps: FeedDeps
  readonly #splice: Splice<StoredEvent>
  readonly #over: AbortController
  readonly #waiting = new Set<Client>()
  #fromOldest: boolean
  #pages: AsyncGenerator<readonly StoredEvent[], void, void> | null = null
  #giveBack: (() => void) | null = null
  #filling = false
  #idle: NodeJS.Timeout | null = null

  /** `start` null: from the oldest event kept, whichever that is when the first page is read. */
  constructor(feed: Feed, deps: FeedDeps, start: Place | null, signal: AbortSignal) {
    const base = start ?? { sequence: 0, index: 0 }
    this.#feed = feed
    this.#deps = deps
    this.#fromOldest = start === null
    this.ring = new Ring(base)
    this.#splice = new Splice(base, 0)
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
      if (!this.closed) this.#deps.log.warn({ run: this.#feed.run, err: error }, 'replay.failed')
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
    const { nats, slots } = this.#deps
    const { run } = this.#feed
    this.#giveBack ??= await slots.take(signal)
    this.#pages ??= replayRun(nats, run, this.#splice.last.sequence, signal)
    const page = await this.#pages.next()
    if (page.done === true) {
      this.#pages = null
      await this.#atTheEnd()
      return
    }
    this.ring.trim(WINDOW_BYTES)
    for (const event of page.value) await this.#add(event)
  }

  async #add(event: StoredEvent): Promise<void> {
    if (this.#fromOldest) this.#startAt({ sequence: event.sequence - 1, index: event.index - 1 })
    let next = this.#splice.read(event)
    if (next === 'hole') {
      const { place, block } = await mend(this.#deps.nats, this.#feed.run, this.#splice.last)
      this.#splice.restart(place)
      this.ring.push(new OwnEntry(place, block))
      next = this.#splice.read(event)
      if (next === 'hole') return
    }
    for (const one of next) this.ring.push(new EventEntry(one))
  }

  /** The log has no more: the feed must have the rest. */
  async #atTheEnd(): Promise<void> {
    const { nats } = this.#deps
    if (this.#fromOldest) this.#startAt(startOf(await readExtent(nats, this.#feed.run, 'any')))
    const { last } = this.#splice
    if (this.#feed.last.sequence >= last.sequence) return
    await this.#feed.refill(last.index)
    if (this.#feed.last.sequence < last.sequence) await delay(RETRY_MS, undefined, { signal: this.#over.signal })
  }

  #startAt(place: Place): void {
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
