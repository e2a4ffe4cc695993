import type { Position } from '@baton/core/position'
import { isOfAnotherStream, mayHaveLost, type Verdict } from '@baton/core/servable'
import type { Nats } from './connect.ts'
import { readLedInfo } from './led.ts'
import { runSubject, STREAM } from './names.ts'
import { endsBefore, readCheckpoint } from './read-log.ts'
import type { Part } from './replay.ts'
import { readNextOf, readTimeAt, toView, viewStream, type StreamView } from './timed-log.ts'

/** The nearly full subjects under one filter, as counted once. */
type Count = {
  readonly createdAtMs: number
  readonly lastSequence: number
  readonly kept: ReadonlyMap<string, number>
}

/** Since which position a subject's messages are owed to somebody; Infinity where none are. */
export type Owed = (subject: string) => number

/** Subjects asked for their oldest message at once. */
const AT_ONCE = 32
/** Filters whose counts are remembered; the one used longest ago is forgotten first. */
const MAX_COUNTS = 1000

/**
 * Tells whether a part of a stream still has all that was stored after a position. A subject loses its oldest message
 * first: it has lost nothing since a position that its oldest one does not lie behind, nor while it is not full. How
 * full subjects are is counted seldom: since a count no subject can have got more than the whole stream has.
 */
export class Losses {
  readonly #nats: Nats
  readonly #counts = new Map<string, Count>()

  constructor(nats: Nats) {
    this.#nats = nats
  }

  /** Can a client go on from this position? Throws `unavailable`. */
  async judge(part: Part, position: Position): Promise<Verdict> {
    const view = await this.#viewFor(part.stream, position)
    const keptAtMs = await readTimeAt(this.#nats, part.stream, position.sequence)
    const log = { ...view, keptAtMs }
    if (isOfAnotherStream(position, log)) return { valid: false, reason: 'recreated', missed: null }
    return (await this.lost(part, position, view)) ? { valid: false, reason: 'trimmed', missed: null } : { valid: true }
  }

  /** The stream as it stands; one that seems to end before the position is given the time that a replica may lag. */
  async #viewFor(stream: string, position: Position): Promise<StreamView> {
    const view = await viewStream(this.#nats, stream)
    const isAhead = position.sequence > view.lastSequence && position.mark >= view.createdAtMs
    return isAhead && !(await endsBefore(this.#nats, stream, position.sequence)) ? viewStream(this.#nats, stream) : view
  }

  /** May anything of the part that was stored after the position be gone? `owed` narrows it to what somebody waits for. */
  async lost(part: Part, position: Position, view: StreamView, owed: Owed = () => position.sequence): Promise<boolean> {
    if (position.sequence >= view.lastSequence) return false
    if (part.stream === STREAM.runs) return this.#runsLost(part, owed)
    if (part.subjects.length === 1 && (await this.#keeps(part.stream, part.subjects[0] as string, position.sequence))) {
      return false
    }
    if (mayHaveLost(position, { ...view, keptAtMs: null })) return true
    if (view.cap <= 0) return false
    for (const subject of part.subjects) {
      const full = await this.#full(part.stream, subject, view, 'remembered')
      if (!(await this.#anyLost(part.stream, full, owed))) continue
      // Counted a while ago, a subject may only seem full.
      const really = await this.#full(part.stream, subject, view, 'now')
      if (await this.#anyLost(part.stream, really, owed)) return true
    }
    return false
  }

  /** A run is numbered from 1: whether its oldest event is its first one decides, whatever took the others. */
  async #runsLost({ stream, subjects }: Part, owed: Owed): Promise<boolean> {
    return some(subjects, async (subject) => {
      const sequence = owed(subject)
      if (sequence === Number.POSITIVE_INFINITY) return false
      const first = await readNextOf(this.#nats, { stream, subjects: [subject] }, 0)
      if (first !== null) return first.sequence > sequence && 'index' in first.event && first.event.index !== 1
      const checkpoint = await readCheckpoint(this.#nats, subject.slice(runSubject('').length), 'leader')
      return checkpoint !== null && checkpoint.index > 0 && checkpoint.sequence > sequence
    })
  }

  /** The subjects under a filter that may be at their cap. */
  async #full(stream: string, filter: string, view: StreamView, how: 'remembered' | 'now'): Promise<readonly string[]> {
    const count = await this.#count(stream, filter, view, how)
    const since = Math.max(0, view.lastSequence - count.lastSequence)
    return [...count.kept].flatMap(([subject, kept]) => (kept + since >= view.cap ? [subject] : []))
  }

  async #count(stream: string, filter: string, view: StreamView, how: 'remembered' | 'now'): Promise<Count> {
    const key = `${stream} ${filter}`
    const half = view.cap / 2
    const known = this.#counts.get(key)
    // A subject that was less than half full is not remembered, so it must not have had time to fill up.
    if (how === 'remembered' && known?.createdAtMs === view.createdAtMs) {
      const since = view.lastSequence - known.lastSequence
      if (since >= 0 && since < half) return known
    }
    const info = await readLedInfo(this.#nats, stream, filter)
    const kept = Object.entries(info.state.subjects ?? {}).filter(([, count]) => count >= half)
    const { createdAtMs, lastSequence } = toView(info)
    const count = { createdAtMs, lastSequence, kept: new Map(kept) }
    this.#counts.delete(key)
    this.#counts.set(key, count)
    if (this.#counts.size > MAX_COUNTS) {
      const [oldest] = this.#counts.keys()
      if (oldest !== undefined) this.#counts.delete(oldest)
    }
    return count
  }

  #anyLost(stream: string, subjects: readonly string[], owed: Owed): Promise<boolean> {
    return some(subjects, async (subject) => {
      const since = owed(subject)
      return since !== Number.POSITIVE_INFINITY && !(await this.#keeps(stream, subject, since))
    })
  }

  /** Has this subject, or all that is under this filter, a message at the sequence or before it? */
  async #keeps(stream: string, subject: string, sequence: number): Promise<boolean> {
    if (/[*>]/.test(subject)) return false
    const first = await readNextOf(this.#nats, { stream, subjects: [subject] }, 0)
    return first !== null && first.sequence <= sequence
  }
}

async function some<T>(all: readonly T[], is: (one: T) => Promise<boolean>): Promise<boolean> {
  for (let at = 0; at < all.length; at += AT_ONCE) {
    const found = await Promise.all(all.slice(at, at + AT_ONCE).map(is))
    if (found.includes(true)) return true
  }
  return false
}
