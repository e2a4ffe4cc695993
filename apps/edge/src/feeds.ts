import { BatonError, isCode } from '@baton/core/errors'
import { Feed, type FeedDeps } from './feed.ts'
import type { Event, Scope } from './scope.ts'
import type { EdgeConfig } from './config.ts'
import type { Connection } from '@baton/store/connection'

/** A feed and how many clients, and requests on their way to be one, hold it. */
type Held<T extends Event = Event> = {
  readonly feed: Feed<T>
  readonly opened: Promise<void>
  holders: number
  linger: NodeJS.Timeout | null
}

/** A feed for as long as it is needed. */
export type Hold<T extends Event> = { readonly feed: Feed<T>; release(options?: { now?: boolean }): void }

/** The ring of one feed never holds more, however few there are, nor less, however many. */
const RING_MAX_BYTES = 2 ** 20
const RING_MIN_BYTES = 64 * 1024
const SWEEP_MS = 1000
/** Tail checks under way at once: a reconnect to NATS makes every feed want one. */
const MAX_CHECKS = 32

/** The feeds of this edge: one for each run, topic or set that somebody here follows. */
export class Feeds {
  readonly #feeds = new Map<string, Held>()
  /** The feeds that each run is in: its own, and those of sets. */
  readonly #ofRun = new Map<string, Set<{ readonly subscribers: number }>>()
  readonly #deps: FeedDeps
  readonly #config: EdgeConfig
  readonly #connection: Connection
  readonly #sweeper: NodeJS.Timeout
  #checks = 0
  /** Feeds that wait for a check, who has heard nothing for longest last; made anew at every sweep. */
  #due: Feed<Event>[] = []
  /** Everything heard before this must be checked again. */
  #distrustBeforeMs = Number.NEGATIVE_INFINITY

  constructor(deps: Omit<FeedDeps, 'ringBytes'>, config: EdgeConfig, connection: Connection) {
    this.#deps = { ...deps, ringBytes: () => this.#ringBytes() }
    this.#config = config
    this.#connection = connection
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP_MS, config.checkMs))
  }

  get size(): number {
    return this.#feeds.size
  }

  get replays(): number {
    let replays = 0
    for (const { feed } of this.#feeds.values()) replays += feed.replays
    return replays
  }

  /** What the rings of all feeds hold. */
  get ringsBytes(): number {
    let bytes = 0
    for (const { feed } of this.#feeds.values()) bytes += feed.ring.bytes + feed.ring.rowsBytes
    return bytes
  }

  /** How many clients follow this run here, by itself or in a set. */
  subscribersOf(run: string): number {
    let subscribers = 0
    for (const feed of this.#ofRun.get(run) ?? []) subscribers += feed.subscribers
    return subscribers
  }

  /** The feed of a scope, opened when nobody has it yet. Throws `unavailable`. */
  async hold<T extends Event>(scope: Scope<T>): Promise<Hold<T>> {
    const { key } = scope
    // Scopes of one key are of one kind, and so are their feeds.
    const held = (this.#feeds.get(key) as Held<T> | undefined) ?? this.#open(scope)
    held.holders++
    if (held.linger !== null) clearTimeout(held.linger)
    held.linger = null
    let holding = true
    const release = (options: { now?: boolean } = {}) => {
      if (!holding) return
      holding = false
      held.holders--
      if (held.holders > 0) return
      if (options.now === true) this.#drop(key, held)
      else held.linger = setTimeout(() => this.#drop(key, held), this.#config.lingerMs)
    }
    try {
      await held.opened
      return { feed: held.feed, release }
    } catch (error) {
      release({ now: true })
      throw error
    }
  }

  /** The connection was away: whatever came meanwhile was not heard. */
  distrust(): void {
    this.#distrustBeforeMs = performance.now()
    for (const { feed } of this.#feeds.values()) feed.distrust()
    this.#sweep()
  }

  close(): void {
    clearInterval(this.#sweeper)
    for (const [key, held] of this.#feeds) this.#drop(key, held)
  }

  #open<T extends Event>(scope: Scope<T>): Held<T> {
    if (!this.#connection.connected) throw new BatonError('unavailable', 'the connection to NATS is lost')
    const feed = new Feed(scope, this.#deps)
    const held: Held<T> = { feed, opened: feed.open(), holders: 0, linger: null }
    this.#feeds.set(scope.key, held as unknown as Held)
    for (const run of scope.runs) this.#ofRun.set(run, (this.#ofRun.get(run) ?? new Set()).add(feed))
    return held
  }

  #drop<T extends Event>(key: string, { feed, linger }: Held<T>): void {
    if (linger !== null) clearTimeout(linger)
    // Another feed may have been opened for the same scope meanwhile.
    if (this.#feeds.get(key)?.feed === (feed as unknown)) this.#feeds.delete(key)
    for (const run of feed.scope.runs) {
      const feeds = this.#ofRun.get(run)
      feeds?.delete(feed)
      if (feeds?.size === 0) this.#ofRun.delete(run)
    }
    feed.close()
  }

  #ringBytes(): number {
    const share = this.#config.ringsBytes / Math.max(1, this.#feeds.size)
    return Math.max(RING_MIN_BYTES, Math.min(RING_MAX_BYTES, share))
  }

  #sweep(): void {
    const dueMs = Math.max(performance.now() - this.#config.checkMs, this.#distrustBeforeMs)
    const feeds = [...this.#feeds.values()].map(({ feed }) => feed)
    this.#due = feeds.filter(({ heardAtMs }) => heardAtMs <= dueMs).sort((a, b) => b.heardAtMs - a.heardAtMs)
    this.#checkDue()
  }

  #checkDue(): void {
    while (this.#connection.connected && this.#checks < MAX_CHECKS) {
      const feed = this.#due.pop()
      if (feed === undefined) return
      if (!feed.closed) void this.#check(feed)
    }
  }

  async #check(feed: Feed<Event>): Promise<void> {
    this.#checks++
    try {
      await feed.check()
    } catch (error) {
      if (feed.closed) return
      this.#deps.metrics.checkFailed()
      this.#deps.log.warn({ feed: feed.scope.name, err: error }, 'tail_check.failed')
      if (isCode(error, 'unavailable')) this.#connection.reconnect()
    } finally {
      this.#checks--
      this.#checkDue()
    }
  }
}
