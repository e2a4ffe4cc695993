import { END, GAP, type StoredEvent } from '@baton/core/event'
import type { Place } from '@baton/core/servable'
import { formatEvent, toChunk, type Format } from '@baton/sse/format'

/** One thing in a sequence that clients follow, with the bytes that say it. */
export type Entry = {
  /** Where a client stands that has got it. */
  readonly place: Place
  /** What a filter on types looks at; null passes every filter. */
  readonly type: string | null
  /** The response ends after it. */
  readonly ends: boolean
  /** What it costs to keep, roughly. */
  readonly bytes: number
  /** Its bytes as one chunk, made at most once for each format. */
  chunk(format: Format): Buffer
}

/** An entry object, its text and its chunk cost about this much beside the data itself. */
const OVERHEAD_BYTES = 512

/** A stored event: encoded when the first client needs it, and never again. */
export class EventEntry implements Entry {
  readonly event: StoredEvent
  readonly place: Place
  readonly type: string | null
  readonly ends: boolean
  readonly bytes: number
  #plain: Buffer | null = null
  #envelope: Buffer | null = null

  constructor(event: StoredEvent) {
    this.event = event
    this.place = event
    this.type = event.type === END || event.type === GAP ? null : event.type
    this.ends = event.type === END
    this.bytes = 2 * event.data.length + OVERHEAD_BYTES
  }

  chunk(format: Format): Buffer {
    return format === 'plain'
      ? (this.#plain ??= toChunk(formatEvent(this.event, 'plain')))
      : (this.#envelope ??= toChunk(formatEvent(this.event, 'envelope')))
  }
}

/** A frame of Baton's own that every client who passes it must see. */
export class OwnEntry implements Entry {
  readonly place: Place
  readonly type = null
  readonly ends: boolean
  readonly bytes: number
  readonly #chunk: Buffer

  constructor(place: Place, block: string, ends = false) {
    this.place = place
    this.ends = ends
    this.#chunk = toChunk(block)
    this.bytes = this.#chunk.length + OVERHEAD_BYTES
  }

  chunk(): Buffer {
    return this.#chunk
  }
}
