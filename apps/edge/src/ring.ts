import type { Position } from '@baton/core/position'
import type { Place } from '@baton/core/servable'
import { chunkBody, type Format } from '@baton/sse/format'
import { OwnEntry, type Entry } from './entry.ts'

/** How a client wants to see a sequence. `key` is equal where the bytes are. */
export type View = {
  readonly format: Format
  /** Only these types; null for all. */
  readonly types: ReadonlySet<string> | null
  /** False for HTTP/1.0, which knows no chunks. */
  readonly chunked: boolean
  readonly key: string
}

export function createView(format: Format, types: readonly string[] | null, chunked: boolean): View {
  const names = types === null ? null : [...new Set(types)].sort()
  return {
    format,
    types: names === null ? null : new Set(names),
    chunked,
    key: `${format}|${chunked}|${names === null ? '' : JSON.stringify(names)}`,
  }
}

/** What one write brings to a client. `bytes` null: its filter let nothing through. */
export type Batch = {
  readonly bytes: Buffer | null
  readonly events: number
  /** The number of the entry that comes next. */
  readonly next: number
  /** Where the client stands then. */
  readonly place: Place
  /** The last place it was shown: behind `place` where its filter hid what follows. Null when it was shown nothing. */
  readonly shown: Place | null
  readonly ends: boolean
}

/**
 * The recent entries of a sequence. Clients are numbers into it: an entry that all of them want is made into bytes
 * once, and so is a row of entries that several clients want at once.
 */
export class Ring {
  #entries: Entry[] = []
  /** The number of the oldest entry here. */
  #first = 0
  /** Before the oldest entry. */
  #base: Place
  #bytes = 0
  #batches = new Map<string, Batch>()

  constructor(base: Place) {
    this.#base = base
  }

  /** The number of the oldest entry that can still be taken. */
  get first(): number {
    return this.#first
  }

  /** The number the next entry will have. */
  get next(): number {
    return this.#first + this.#entries.length
  }

  /** The place a client stands at who takes the oldest entry next. */
  get base(): Place {
    return this.#base
  }

  /** The place of the newest entry. */
  get last(): Place {
    return this.#entries.at(-1)?.place ?? this.#base
  }

  get bytes(): number {
    return this.#bytes
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
    this.#bytes += entry.bytes
    this.#batches.clear()
  }

  /** Forgets the oldest entries until at most so many bytes are kept; whoever wanted them must read the log. */
  trim(maxBytes: number): void {
    let drop = 0
    while (this.#bytes > maxBytes && drop < this.#entries.length) {
      const entry = this.#entries[drop++] as Entry
      this.#bytes -= entry.bytes
      this.#base = entry.place
    }
    if (drop === 0) return
    this.#entries = this.#entries.slice(drop)
    this.#first += drop
    this.#batches.clear()
  }

  /** Forgets everything and goes on after another place: the log was begun anew. */
  clear(base: Place): void {
    this.trim(-1)
    this.#base = base
  }

  /**
   * The number of the entry that follows a position, null where this ring cannot tell. As in the log itself: the
   * first entry after the sequence must have the next index, or the position must be the end. A reset there tells of a
   * hole, it fills none.
   */
  locate({ sequence, mark: index }: Position): number | null {
    if (sequence < this.#base.sequence) return null
    const at = this.#firstAfter(sequence)
    const entry = this.#entries[at]
    if (entry === undefined) return index === this.last.index ? this.next : null
    return entry.place.index === index + 1 && !(entry instanceof OwnEntry) ? this.#first + at : null
  }

  #firstAfter(sequence: number): number {
    let [low, high] = [0, this.#entries.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#entries[middle] as Entry).place.sequence > sequence) high = middle
      else low = middle + 1
    }
    return low
  }

  /** The entries from a number on. */
  *from(number: number): Generator<Entry, void, void> {
    for (let at = Math.max(0, number - this.#first); at < this.#entries.length; at++) yield this.#entries[at] as Entry
  }

  /**
   * What a client that wants entry `number` next gets in one write: all that is new up to `maxBytes`, or one event
   * where that is larger; `maxBytes` is the same for all clients. Null when there is nothing new; `behind` when the
   * entry is no longer here.
   */
  take(number: number, view: View, maxBytes: number): Batch | 'behind' | null {
    if (number < this.#first) return 'behind'
    if (number >= this.next) return null
    const key = `${number}|${view.key}`
    const made = this.#batches.get(key)
    if (made !== undefined) return made
    const batch = this.#make(number, view, maxBytes)
    this.#batches.set(key, batch)
    return batch
  }

  #make(number: number, view: View, maxBytes: number): Batch {
    const chunks: Buffer[] = []
    let size = 0
    let at = number - this.#first
    let entry = this.#entries[at] as Entry
    let shown: Place | null = null
    for (; at < this.#entries.length; at++) {
      const candidate = this.#entries[at] as Entry
      if (view.types === null || candidate.type === null || view.types.has(candidate.type)) {
        const chunk = candidate.chunk(view.format)
        if (chunks.length > 0 && size + chunk.length > maxBytes) break
        chunks.push(view.chunked ? chunk : chunkBody(chunk))
        size += chunk.length
        shown = candidate.place
      }
      entry = candidate
      if (entry.ends) {
        at++
        break
      }
    }
    return {
      bytes: chunks.length === 0 ? null : chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks),
      events: chunks.length,
      next: this.#first + at,
      place: entry.place,
      shown,
      ends: entry.ends,
    }
  }
}
