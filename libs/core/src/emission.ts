import { GAP } from './event.ts'

/** What identifies an event of an agent: the id on its own line (null without one), its SSE name and its data. */
export type Emitted = { readonly id: string | null; readonly name: string | null; readonly data: string }

/** A stored event as the log keeps it. */
type Stored = {
  readonly type: string
  readonly name: string | null
  readonly data: string
  readonly upstreamId: string | null
  readonly upstreamOffset: number | null
  readonly ordinal: number | null
}

/** Two multiplicative hashes side by side (after cyrb53), so that 53 bits of the result are of use. */
class Hash {
  #high = 0xdeadbeef
  #low = 0x41c6ce57

  add(text: string | null): this {
    // Absence and the length go in first: ('a', 'bc') is not ('ab', 'c'), and null is not ''.
    this.#mix(text === null ? 0x110000 : text.length)
    if (text !== null) for (let at = 0; at < text.length; at++) this.#mix(text.charCodeAt(at))
    return this
  }

  #mix(value: number): void {
    this.#high = Math.imul(this.#high ^ value, 0x9e3779b1)
    this.#low = Math.imul(this.#low ^ value, 0x5f356495)
  }

  get value(): number {
    const high =
      Math.imul(this.#high ^ (this.#high >>> 16), 0x85ebca6b) ^ Math.imul(this.#low ^ (this.#low >>> 13), 0xc2b2ae35)
    const low =
      Math.imul(this.#low ^ (this.#low >>> 16), 0x85ebca6b) ^ Math.imul(this.#high ^ (this.#high >>> 13), 0xc2b2ae35)
    return (high & 0x1fffff) * 0x100000000 + (low >>> 0)
  }
}

/** One number for id, name and data together: two different events share it once in 10^15 comparisons. */
export const digest = ({ id, name, data }: Emitted): number => new Hash().add(id).add(name).add(data).value

/** The same without the id: what an agent says again, whatever it calls it this time. */
const contentDigest = ({ name, data }: Emitted): number => new Hash().add(name).add(data).value

/** What is kept of a job's first event for longer than of its neighbours: its digests, with and without the id. */
export type Head = { readonly whole: number; readonly content: number }

export const headOf = (event: Emitted): Head => ({ whole: digest(event), content: contentDigest(event) })

const idDigest = (id: string): number => new Hash().add(id).value

/** The own id of a stored event: the id in force belongs to it only where no event came since. */
export const ownId = (event: Pick<Stored, 'upstreamId' | 'upstreamOffset'>): string | null =>
  event.upstreamOffset === 0 ? event.upstreamId : null

/**
 * A job's emission as the log knows it: the newest event stored under each ordinal, as two numbers each. Ordinals are
 * dense; the oldest are forgotten beyond `limit`, as the log itself forgets them.
 */
export class Emission {
  readonly #limit: number
  #digests: number[] = []
  /** Digest of the own id, -1 without one. */
  #ids: number[] = []
  #last: number
  #head: Head | null
  readonly #anyId: boolean

  /**
   * `last` is the ordinal of the job's last stored event, 0 when none is; `head` says what the first was, if known.
   * `anyId`: events are compared by name and data alone. Where an agent is known to start over each time, its ids say
   * nothing more, and there are libraries that make up a new one whenever an event is sent.
   */
  constructor(limit: number, last = 0, head: Head | null = null, anyId = false) {
    this.#limit = limit
    this.#last = last
    this.#head = head
    this.#anyId = anyId
  }

  /** From the events still in the log, oldest first. `last` holds even when none of them is kept. */
  static of(
    kept: readonly Stored[],
    cursor: { ordinal: number; head: Head | null },
    limit: number,
    anyId = false,
  ): Emission {
    const { ordinal: last, head } = cursor
    const emission = new Emission(limit, 0, head, anyId)
    for (const event of kept) emission.learn(event)
    return emission.upTo(last)
  }

  /** Takes in an event the log keeps; the oldest must come first. */
  learn(event: Stored): void {
    if (event.type === GAP || event.ordinal === null || event.ordinal < 1) return
    this.push(event.ordinal, { id: ownId(event), name: event.name, data: event.data })
  }

  /**
   * This, when it reaches up to the ordinal of the job's last stored event. Else the log holds more than was read, and
   * what is known is of no use.
   */
  upTo(last: number): Emission {
    return this.#last === last ? this : new Emission(this.#limit, last, this.#head, this.#anyId)
  }

  get last(): number {
    return this.#last
  }

  /** The oldest ordinal whose event is known; one more than `last` when none is. */
  get first(): number {
    return this.#last - this.#digests.length + 1
  }

  /** Null where that event is no longer known. */
  digestAt(ordinal: number): number | null {
    const head = this.#anyId ? this.#head?.content : this.#head?.whole
    return this.#digests[ordinal - this.first] ?? (ordinal === 1 ? (head ?? null) : null)
  }

  /** By this number it is told from others here. */
  digestOf(event: Emitted): number {
    return this.#anyId ? contentDigest(event) : digest(event)
  }

  get head(): Head | null {
    return this.#head
  }

  /** Adds the event that was stored as `ordinal`; what an earlier emission had from there on is over. */
  push(ordinal: number, event: Emitted): void {
    const keep = Math.max(0, ordinal - this.first)
    if (ordinal !== this.#last + 1) {
      this.#digests.length = Math.min(keep, this.#digests.length)
      this.#ids.length = this.#digests.length
      if (ordinal > this.#last + 1) this.#digests.length = this.#ids.length = 0
    }
    if (ordinal === 1) this.#head = headOf(event)
    this.#digests.push(this.digestOf(event))
    this.#ids.push(event.id === null ? -1 : idDigest(event.id))
    this.#last = ordinal
    // Cut in large steps: each costs a copy.
    if (this.#digests.length > this.#limit * 1.25) {
      this.#digests = this.#digests.slice(-this.#limit)
      this.#ids = this.#ids.slice(-this.#limit)
    }
  }

  /** Where an event with this digest stands, in order. */
  placesOf(wanted: number): number[] {
    const places: number[] = []
    const { first } = this
    for (let at = this.#digests.indexOf(wanted); at !== -1; at = this.#digests.indexOf(wanted, at + 1)) {
      places.push(first + at)
    }
    return places
  }

  /** Where the id was given, if ids name events here: null as soon as two known events share one. */
  placeOfId(id: string): number | null {
    const wanted = idDigest(id)
    const at = this.#ids.indexOf(wanted)
    if (at === -1) return null
    const given = this.#ids.filter((one) => one !== -1)
    return new Set(given).size === given.length ? this.first + at : null
  }
}
