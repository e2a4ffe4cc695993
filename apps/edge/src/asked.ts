import { BatonError } from '@baton/core/errors'
import { parsePosition, type Position } from '@baton/core/position'

/** Where a client asks to start. */
export type Asked =
  /** After this id; `position` null where it is not of the form, and so nobody's. */
  | { readonly kind: 'id'; readonly text: string; readonly position: Position | null }
  | { readonly kind: 'start' }
  | { readonly kind: 'now' }
  /** At this index, itself included. */
  | { readonly kind: 'index'; readonly index: number }
  /** The last so many events. */
  | { readonly kind: 'last'; readonly count: number }
  /** At the first event stored at this instant, unix ms, or after it. */
  | { readonly kind: 'time'; readonly atMs: number }

/** A run knows no instants: its events are numbered. */
export type RunAsked = Exclude<Asked, { kind: 'time' }>

/**
 * What a request asks for: the Last-Event-ID header, which a browser sends by itself when it comes back, before
 * `?lastEventId=`, which a page writes into a new EventSource, before `?from=`. Blank is none. Throws `invalid` for a
 * malformed `from`, used or not.
 */
export function readAsked(header: string | undefined, query: string | undefined, from: string | undefined): RunAsked {
  const start = readFrom(from ?? 'start')
  if (start === null) throw new BatonError('invalid', 'from: must be start, now, an index, or -<count>')
  return readId(header, query) ?? start
}

/** As `readAsked`, for topics and several runs: from now on unless said, from a sequence, from an instant. */
export function readTimedAsked(header: string | undefined, query: string | undefined, from: string | undefined): Asked {
  const start = readFrom(from ?? 'now') ?? readTime(from ?? '')
  if (start === null) {
    throw new BatonError('invalid', 'from: must be start, now, a sequence, -<count>, or a time (RFC 3339)')
  }
  return readId(header, query) ?? start
}

/** Is it of a form that some route takes? */
export const isFrom = (text: string): boolean => readFrom(text) !== null || readTime(text) !== null

function readId(header: string | undefined, query: string | undefined): (Asked & { kind: 'id' }) | null {
  // Header bytes are UTF-8 to the client and Latin-1 to Node.
  const id = given(header === undefined ? undefined : Buffer.from(header, 'latin1').toString('utf8')) ?? given(query)
  return id === undefined ? null : { kind: 'id', text: id, position: parsePosition(id) }
}

const given = (text: string | undefined): string | undefined => {
  const trimmed = text?.trim()
  return trimmed === '' ? undefined : trimmed
}

function readFrom(text: string): Exclude<Asked, { kind: 'time' | 'id' }> | null {
  if (text === 'start' || text === 'now') return { kind: text }
  if (/^-\d{1,15}$/.test(text)) return { kind: 'last', count: -Number(text) }
  if (/^\d{1,15}$/.test(text)) return { kind: 'index', index: Number(text) }
  return null
}

const instant = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/

function readTime(text: string): (Asked & { kind: 'time' }) | null {
  // A plus sign in a query that nobody encoded arrives as a blank.
  const whole = text.replace(/ (?=\d{2}:\d{2}$)/, '+')
  const atMs = instant.test(whole) ? Date.parse(whole) : Number.NaN
  return Number.isNaN(atMs) ? null : { kind: 'time', atMs }
}
