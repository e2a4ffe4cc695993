import { END, GAP, type StoredEvent } from '@baton/core/event'
import type { Position } from '@baton/core/position'
import { runOrder } from '@baton/core/splice'
import type { TimedEvent } from '@baton/core/timed'
import { formatEvent, formatTimed, toChunk, type Format } from '@baton/sse/format'

/** One thing in a sequence that clients follow, with the bytes that say it. */
export type Entry = {
  /** Clients are moved on by it and shown nothing. */
  readonly hidden?: boolean
  /** Tells of a loss that lies between its place and this sequence. */
  readonly lossUntil?: number
  /** Where a client stands that has got it. */
  readonly place: Position
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
  readonly place: Position
  readonly type: string | null
  readonly ends: boolean
  readonly bytes: number
  #plain: Buffer | null = null
  #envelope: Buffer | null = null

  constructor(event: StoredEvent) {
    this.event = event
    this.place = runOrder.position(event)
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

/** An event of a topic or of one of several runs. `ends`: it is the last one there will be. */
export class TimedEntry implements Entry {
  readonly place: Position
  readonly type: string | null
  readonly ends: boolean
  readonly bytes: number
  readonly #event: TimedEvent
  #plain: Buffer | null = null
  #envelope: Buffer | null = null

  constructor(event: TimedEvent, ends: boolean) {
    const { type, data } = event.event
    this.#event = event
    this.place = { sequence: event.sequence, mark: event.atMs }
    this.type = 'run' in event.event && (type === END || type === GAP) ? null : type
    this.ends = ends
    this.bytes = 2 * data.length + OVERHEAD_BYTES
  }

  chunk(format: Format): Buffer {
    return format === 'plain'
      ? (this.#plain ??= toChunk(formatTimed(this.#event, 'plain')))
      : (this.#envelope ??= toChunk(formatTimed(this.#event, 'envelope')))
  }
}

/** Nothing of what is followed was stored up to here. */
export class PassedEntry implements Entry {
  readonly place: Position
  readonly hidden = true
  readonly type = null
  readonly ends = false
  readonly bytes = OVERHEAD_BYTES

  constructor(place: Position) {
    this.place = place
  }

  chunk(): Buffer {
    return Buffer.alloc(0)
  }
}

/** A frame of Baton's own that every client who passes it must see. */
export class OwnEntry implements Entry {
  readonly place: Position
  readonly lossUntil: number
  readonly type = null
  readonly ends: boolean
  readonly bytes: number
  readonly #chunk: Buffer

  constructor(place: Position, block: string, lossUntil: number = place.sequence, ends = false) {
    this.place = place
    this.lossUntil = lossUntil
    this.ends = ends
    this.#chunk = toChunk(block)
    this.bytes = this.#chunk.length + OVERHEAD_BYTES
  }

  chunk(): Buffer {
    return this.#chunk
  }
}
