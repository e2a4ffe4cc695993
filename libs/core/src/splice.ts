import type { Position } from './position.ts'
import type { Place } from './servable.ts'

/** Heard live: `previous` is the sequence of the message before it in its subject, 0 where none was kept; null: not said. */
export type Heard<T> = T & { readonly previous: number | null }

/** How the events of a sequence stand to each other. */
export type Order<T> = {
  /** The position of a client that has got this one. */
  readonly position: (event: T) => Position
  /** Is this, read from the log, the next one after `last`? */
  readonly follows: (last: Position, event: T) => boolean
  /**
   * Is this, heard live, where anything may be lost or forged, the next one after `last`? `before`: the event that was
   * handed out last, null where there is none.
   */
  readonly continues: (last: Position, event: Heard<T>, before: T | null) => boolean
  /** What the log had lost where this was read; one and the same for all that was read with it. */
  readonly loss?: (event: T) => object | null
  /** Can this, heard live, hardly be of the log that `last` is a position of? Then it is time to ask, before more is believed. */
  readonly contradicts?: (last: Position, event: T) => boolean
  /** It does not see by an event that one before it is missing: while something waits, nothing else is believed. */
  readonly blind?: true
}

/**
 * A run is numbered densely: a jump of the index is a hole. Anybody may publish where events are heard, so one must name
 * the event before it, and not only have the next index.
 */
export const runOrder: Order<Place> = {
  position: ({ sequence, index }) => ({ sequence, mark: index }),
  follows: (last, { index }) => index === last.mark + 1,
  continues: (last, { index, previous }) => index === last.mark + 1 && previous === last.sequence,
}

/**
 * Joins what is heard live, which may lack anything, with what is read again from the log, into one strictly
 * consecutive sequence. It holds live events that came too early until the ones before them have been read.
 */
export class Splice<T extends { readonly sequence: number }> {
  #last: Position
  #before: T | null = null
  #newestHeard: number
  readonly #limit: number
  readonly #order: Order<T>
  /** Heard, but not yet the next; in the order of the stream. */
  #ahead: Heard<T>[] = []
  /** Something heard was forgotten: what is heard after it is no continuation, until the log has been read so far. */
  #forgets = false
  /** The loss that was answered by `hole` last, and the one that a start has settled: what was read with it follows. */
  #refused: object | null = null
  #settled: object | null = null
  /** Before this sequence nothing that was heard is handed out. */
  #lossUntil = 0

  /**
   * Starts after `last`, which `before` is the last event up to, where it is known. At most `limit` early events are held; later ones are forgotten, which costs one more
   * reading of the log and loses nothing.
   */
  constructor(last: Position, limit: number, order: Order<T>, before: T | null = null) {
    this.#last = last
    this.#before = before
    this.#newestHeard = last.sequence
    this.#limit = limit
    this.#order = order
  }

  /** The position of the last event handed out. */
  get last(): Position {
    return this.#last
  }

  /** The newest sequence heard. */
  get newestHeard(): number {
    return this.#newestHeard
  }

  /** Something was heard that cannot be handed out yet: the log must be read from `last` on. */
  get waiting(): boolean {
    return this.#newestHeard > this.#last.sequence
  }

  /** Takes an event heard live; returns the events that are next now, mostly just this one. */
  live(event: Heard<T>): readonly T[] {
    if (event.sequence <= this.#last.sequence) return []
    const { blind = false } = this.#order
    const isNext = !(blind && this.waiting) && this.#continues(event)
    this.#newestHeard = Math.max(this.#newestHeard, event.sequence)
    if (isNext) return this.#handOut(event)
    if (this.#ahead.length >= this.#limit) this.#forgets = blind
    else if (!this.#forgets) this.#ahead.push(event)
    return []
  }

  #continues(event: Heard<T>): boolean {
    return this.#last.sequence >= this.#lossUntil && this.#order.continues(this.#last, event, this.#before)
  }

  /**
   * Takes an event read from the log; returns the events that are next now, or `hole` when it does not follow: the
   * log itself lacks something there. Nothing is taken then; `restart` says where to go on.
   */
  read(event: T): readonly T[] | 'hole' {
    if (event.sequence <= this.#last.sequence) return []
    const loss = this.#order.loss?.(event) ?? null
    if (loss !== null && loss !== this.#settled) {
      this.#refused = loss
      return 'hole'
    }
    return this.#order.follows(this.#last, event) ? this.#handOut(event) : 'hole'
  }

  /**
   * Goes on after another position, forwards or backwards. What was heard from beyond it is kept; with a loss behind it
   * only what was heard from beyond the loss, and that waits until the log has been read so far: what lies before it may
   * be whole or not, and only the log says what is left.
   */
  restart(last: Position, lossUntil: number = last.sequence): void {
    if (last.sequence < this.#last.sequence) this.#forgets = false
    this.#last = last
    this.#before = null
    this.#lossUntil = lossUntil
    this.#settled = this.#refused
    this.#ahead = this.#ahead.filter((event) => event.sequence > lossUntil)
    if (!this.#forgets) this.#newestHeard = Math.max(last.sequence, ...this.#ahead.map(({ sequence }) => sequence))
    if (!this.waiting) this.#forgets = false
  }

  /** The log goes no further than this sequence: what was heard from beyond it was never stored, and is forgotten. */
  disown(beyond: number): void {
    this.#ahead = this.#ahead.filter(({ sequence }) => sequence <= beyond)
    this.#newestHeard = Math.min(this.#newestHeard, Math.max(beyond, this.#last.sequence))
    if (!this.waiting) this.#forgets = false
  }

  /** What is heard from now on comes from elsewhere: it may begin before what was heard until now. */
  distrust(): void {
    this.#ahead = []
    this.#forgets = this.waiting && this.#order.blind === true
  }

  /** The log has nothing of this sequence up to there, which lies ahead. Not while it is `waiting`. */
  advance(last: Position): void {
    this.#last = last
    this.#newestHeard = Math.max(this.#newestHeard, last.sequence)
  }

  #handOut(event: T): readonly T[] {
    this.#last = this.#order.position(event)
    this.#before = event
    if (!this.waiting) this.#forgets = false
    if (this.#ahead.length === 0 || event.sequence < this.#lossUntil) return [event]
    const next = [event]
    let used = 0
    for (const early of this.#ahead) {
      if (early.sequence > this.#last.sequence) {
        if (!this.#continues(early)) break
        this.#last = this.#order.position(early)
        this.#before = early
        next.push(early)
      }
      used++
    }
    this.#ahead = this.#ahead.slice(used)
    if (!this.waiting) this.#forgets = false
    return next
  }
}
