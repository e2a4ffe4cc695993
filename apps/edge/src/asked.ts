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

/**
 * What a request asks for: the Last-Event-ID header, which a browser sends by itself when it comes back, before
 * `?lastEventId=`, which a page writes into a new EventSource, before `?from=`. Blank is none. Throws `invalid` for a
 * malformed `from`, used or not.
 */
export function readAsked(
  header: string | undefined,
  query: string | undefined,
  from: string | undefined,
  otherwise: 'start' | 'now' = 'start',
): Asked {
  const start = readFrom(from ?? otherwise)
  // Header bytes are UTF-8 to the client and Latin-1 to Node.
  const id = given(header === undefined ? undefined : Buffer.from(header, 'latin1').toString('utf8')) ?? given(query)
  return id === undefined ? start : { kind: 'id', text: id, position: parsePosition(id) }
}

const given = (text: string | undefined): string | undefined => {
  const trimmed = text?.trim()
  return trimmed === '' ? undefined : trimmed
}

function readFrom(text: string): Asked {
  if (text === 'start' || text === 'now') return { kind: text }
  if (/^-\d{1,15}$/.test(text)) return { kind: 'last', count: -Number(text) }
  if (/^\d{1,15}$/.test(text)) return { kind: 'index', index: Number(text) }
  throw new BatonError('invalid', 'from: must be start, now, an index, or -<count>')
}
