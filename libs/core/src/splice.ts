import type { Place } from './servable.ts'

/** Heard live: `previous` is the sequence of the message before it in its run, 0 where none was kept. */
export type Heard<T> = T & { readonly previous: number }

/**
 * Joins what is heard live, which may lack anything, with what is read again from the log, into one strictly
 * consecutive sequence. It holds live events that came too early until the ones before them have been read.
 */
export class Splice<T extends Place> {
  #last: Place
  #newestHeard: number
  readonly #limit: number
  /** Heard, but not yet the next; in the order of the stream. */
  #ahead: Heard<T>[] = []

  /**
   * Starts after `last`. At most `limit` early events are held; later ones are forgotten, which costs one more
   * reading of the log and loses nothing.
   */
  constructor(last: Place, limit: number) {
    this.#last = last
    this.#newestHeard = last.sequence
    this.#limit = limit
  }

  /** The place of the last event handed out. */
  get last(): Place {
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
    this.#newestHeard = Math.max(this.#newestHeard, event.sequence)
    if (this.#follows(event)) return this.#handOut(event)
    if (this.#ahead.length < this.#limit) this.#ahead.push(event)
    return []
  }

  /**
   * Takes an event read from the log; returns the events that are next now, or `hole` when it does not follow: the
   * log itself lacks something there. Nothing is taken then; `restart` says where to go on.
   */
  read(event: T): readonly T[] | 'hole' {
    if (event.sequence <= this.#last.sequence) return []
    return event.index === this.#last.index + 1 ? this.#handOut(event) : 'hole'
  }

  /** Goes on after another place, forwards or backwards. What was heard from beyond it is kept. */
  restart(last: Place): void {
    this.#last = last
    this.#ahead = this.#ahead.filter((event) => event.sequence > last.sequence)
    this.#newestHeard = Math.max(last.sequence, ...this.#ahead.map(({ sequence }) => sequence))
  }

  /** The log goes no further than this sequence: what was heard from beyond it was never stored, and is forgotten. */
  disown(beyond: number): void {
    this.#ahead = this.#ahead.filter(({ sequence }) => sequence <= beyond)
    this.#newestHeard = Math.min(this.#newestHeard, Math.max(beyond, this.#last.sequence))
  }

  /** Anybody may publish where events are heard, so one must name the event before it, and not only have the next index. */
  #follows({ index, previous }: Heard<T>): boolean {
    return index === this.#last.index + 1 && previous === this.#last.sequence
  }

  #handOut(event: T): readonly T[] {
    this.#last = event
    if (this.#ahead.length === 0) return [event]
    const next = [event]
    let used = 0
    for (const early of this.#ahead) {
      if (early.sequence > this.#last.sequence) {
        if (!this.#follows(early)) break
        this.#last = early
        next.push(early)
      }
      used++
    }
    this.#ahead = this.#ahead.slice(used)
    return next
  }
}
