import type { Position } from '@baton/core/position'
import { chunkBody, type Format } from '@baton/sse/format'
import type { Entry } from './entry.ts'

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
  readonly place: Position
  /** The last place it was shown: behind `place` where its filter hid what follows. Null when it was shown nothing. */
  readonly shown: Position | null
  readonly ends: boolean
}

/**
 * Rows of entries, made into bytes for several clients at once, hold no more than this in one ring, or one row where that is
 * larger; then they are made anew. Else a client that comes with ever other filters would have ever more of them made.
 */
const ROWS_BYTES = 4 * 2 ** 20
/** A row and its place in the map cost about this much beside its bytes and its key. */
const ROW_OVERHEAD_BYTES = 256

/** Where the marks of a sequence are indexes they count; where they are times they only tell streams apart. */
export type Marks = 'indexes' | 'times'

/**
 * The recent entries of a sequence. Clients are numbers into it: an entry that all of them want is made into bytes
 * once, and so is a row of entries that several clients want at once.
 */
export class Ring {
  #entries: Entry[] = []
  /** The number of the oldest entry here. */
  #first = 0
  /** Before the oldest entry. */
  #base: Position
  /** Where losses lie that a reset here tells of, from its place on. */
  #losses: { readonly from: number; readonly until: number }[] = []
  #bytes = 0
  #batches = new Map<string, Batch>()
  #rowsBytes = 0
  readonly #marks: Marks

  constructor(base: Position, marks: Marks = 'indexes') {
    this.#base = base
    this.#marks = marks
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
  get base(): Position {
    return this.#base
  }

  /** The place of the newest entry. */
  get last(): Position {
    return this.#entries.at(-1)?.place ?? this.#base
  }

  get bytes(): number {
    return this.#bytes
  }

  /** What the rows hold that were made of its entries. */
  get rowsBytes(): number {
    return this.#rowsBytes
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
    this.#bytes += entry.bytes
    const { lossUntil } = entry
    if (lossUntil !== undefined) this.#losses.push({ from: entry.place.sequence, until: lossUntil })
    this.#forgetRows()
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
    this.#losses = this.#losses.filter(({ until }) => until >= this.#base.sequence)
    this.#forgetRows()
  }

  /** Forgets everything and goes on after another place: the log was begun anew. */
  clear(base: Position): void {
    this.trim(-1)
    this.#base = base
    this.#losses = []
  }

  /**
   * The number of the entry that follows a position, null where this ring cannot tell. Of indexes, as in the log itself: the
   * first entry after the sequence must have the next index, or the position must be the end.
   */
  locate({ sequence, mark }: Position): number | null {
    if (sequence < this.#base.sequence) return null
    const at = this.#firstAfter(sequence)
    const entry = this.#entries[at]
    if (this.#marks === 'times') return this.#isWholeFrom(sequence) ? this.#first + at : null
    if (entry === undefined) return mark === this.last.mark ? this.next : null
    // A reset there tells of a hole, it fills none.
    return entry.place.mark === mark + 1 && entry.lossUntil === undefined ? this.#first + at : null
  }

  /** Is this exactly the position of an entry here, or of the beginning? */
  holds({ sequence, mark }: Position): boolean {
    if (!this.#isWholeFrom(sequence)) return false
    const before = this.#entries[this.#firstAfter(sequence) - 1]?.place ?? this.#base
    return before.sequence === sequence && before.mark === mark
  }

  /** Is everything here that came after this sequence? Whoever stands within a loss may not have been told of it. */
  #isWholeFrom(sequence: number): boolean {
    if (sequence < this.#base.sequence || sequence > this.last.sequence) return false
    return !this.#losses.some(({ from, until }) => sequence >= from && sequence <= until)
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
    const bytes = (batch.bytes?.length ?? 0) + 2 * key.length + ROW_OVERHEAD_BYTES
    if (this.#rowsBytes + bytes > ROWS_BYTES) this.#forgetRows()
    this.#batches.set(key, batch)
    this.#rowsBytes += bytes
    return batch
  }

  #forgetRows(): void {
    this.#batches.clear()
    this.#rowsBytes = 0
  }

  #make(number: number, view: View, maxBytes: number): Batch {
    const chunks: Buffer[] = []
    let size = 0
    let at = number - this.#first
    let entry = this.#entries[at] as Entry
    let shown: Position | null = null
    for (; at < this.#entries.length; at++) {
      const candidate = this.#entries[at] as Entry
      if (candidate.hidden !== true && isWanted(view, candidate)) {
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

const isWanted = ({ types }: View, { type }: Entry): boolean => types === null || type === null || types.has(type)
