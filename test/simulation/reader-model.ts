import { END, GAP, type StoredEvent } from '@baton/core/event'
import { isCode } from '@baton/core/errors'
import { formatPosition, type Position } from '@baton/core/position'
import { judgeRunPosition, startOf } from '@baton/core/servable'
import { runOrder, Splice, type Heard, type Order } from '@baton/core/splice'
import type { ClientHistory } from '../kit/history.ts'
import type { Opening, Received } from '../kit/sse-client.ts'
import type { Steps, World } from './world.ts'

/** Early events a splice holds: few, so that some are forgotten. */
const MAX_AHEAD = 3

const position = ({ sequence, mark }: Position): Position => ({ sequence, mark })
const credulous: Order<StoredEvent> = { ...runOrder, follows: () => true, continues: () => true }

/**
 * A client and the edges it comes to: each connection is judged, then a splice of what is heard live, where anything may
 * be lost, come twice or out of order, and what is read from the log, perhaps from a replica that is behind.
 */
export class ReaderModel {
  readonly name: string
  done = false
  readonly #world: World
  readonly #frames: Received[] = []
  readonly #openings: Opening[] = []
  #connection = 0
  #at: Position | null = null
  #hasEnd = false

  constructor(name: string, world: World) {
    this.name = name
    this.#world = world
  }

  get history(): ClientHistory {
    return { client: this.name, frames: this.#frames, openings: this.#openings, breach: null, firstIndex: 1 }
  }

  *follow(): Steps {
    const { log } = this.#world
    while (!this.done) {
      yield
      const heard: Heard<StoredEvent>[] = []
      const stop = log.listen((event) => this.#hear(heard, event))
      const start = this.#open()
      if (start !== null) yield* this.#stream(start, heard)
      stop()
      yield* this.#stayAway()
    }
  }

  /** Now and then it comes back after so long that the log may have lost what is next. */
  *#stayAway(): Steps {
    const { chance, faulty, now } = this.#world
    const until = faulty && chance.is(0.2) ? now + chance.below(4000) : now
    while (this.#world.now < until) yield
  }

  /** The answer to an open, from the leader's word; null when there is nothing more to stream. */
  #open(): Position | null {
    const { log, flaw } = this.#world
    const events = log.kept()
    const [first = null, head = null] = [events[0], events.at(-1)]
    const { checkpoint } = log.tail()
    const asked = this.#at
    const oldest = startOf({ first, checkpoint })
    const opening = { url: 'edge', lastEventId: asked === null ? null : formatPosition(asked), atMs: this.#world.now }
    this.#connection++
    if (asked !== null && this.#hasEnd) {
      this.#openings.push({ connection: this.#connection, ...opening, status: 204 })
      this.done = true
      return null
    }
    this.#openings.push({ connection: this.#connection, ...opening, status: 200 })
    const start = { sequence: oldest.sequence, mark: oldest.index }
    // A client that follows from the start and comes when that is gone is told how much it missed.
    if (asked === null && start.mark === 0) return this.#say('stream.open', start)
    if (asked === null) return this.#say('stream.reset', start)
    const after = events.find(({ sequence }) => sequence > asked.sequence) ?? null
    const checkpointIndex = checkpoint?.index ?? 0
    const verdict = judgeRunPosition(asked, { first, head, after, checkpointIndex, streamLast: log.last })
    if (!verdict.valid) return this.#say('stream.reset', start)
    this.#say('stream.open', asked)
    return flaw === 'splice-off-by-one' && after !== null ? { sequence: after.sequence, mark: after.index } : asked
  }

  #say(event: string, at: Position): Position {
    this.#frame(event, at, '{}')
    return position(at)
  }

  #frame(event: string | null, at: Position, data: string): void {
    const isFirst = this.#frames.at(-1)?.connection !== this.#connection
    const [id, connection, atMs] = [formatPosition(at), this.#connection, this.#world.now]
    this.#frames.push({ id, event, data, retryMs: isFirst ? 100 : null, comments: [], atMs, connection })
    this.#at = position(at)
  }

  #hear(heard: Heard<StoredEvent>[], event: Heard<StoredEvent>): void {
    const { chance, faulty } = this.#world
    if (faulty && chance.is(0.1)) return
    heard.push(event)
    if (faulty && chance.is(0.05)) heard.push(event)
    if (faulty && chance.is(0.05)) heard.reverse()
  }

  *#stream(start: Position, heard: Heard<StoredEvent>[]): Steps {
    const { chance, log, flaw } = this.#world
    const order = flaw === 'index-not-checked' ? credulous : runOrder
    const splice = new Splice<StoredEvent>(start, MAX_AHEAD, order)
    while (!this.#hasEnd) {
      yield
      if (this.#world.faulty && chance.is(0.01)) return
      const next = heard.shift()
      if (next !== undefined) this.#deliver(splice.live(next))
      // It looks into the log when something is missing, and now and then when nothing is heard.
      else if (splice.waiting || chance.is(0.1)) {
        const events = yield* this.#readLog(() => log.kept(this.#world.anyReplica))
        const after = splice.last.sequence
        for (const event of events.filter(({ sequence }) => sequence > after)) {
          const read = splice.read(event)
          // The log has lost what comes next: the client comes back and is told so.
          if (read === 'hole') return
          this.#deliver(read)
        }
      }
    }
  }

  *#readLog(work: () => readonly StoredEvent[]): Steps<readonly StoredEvent[]> {
    try {
      return yield* this.#world.read(work)
    } catch (error) {
      if (isCode(error, 'unavailable')) return []
      throw error
    }
  }

  #deliver(events: readonly StoredEvent[]): void {
    for (const { sequence, index, type, name, data } of events) {
      this.#frame(type === END || type === GAP ? type : name, { sequence, mark: index }, data)
      this.#hasEnd ||= type === END
    }
  }
}
