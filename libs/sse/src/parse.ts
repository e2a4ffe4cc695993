import { createParser } from 'eventsource-parser'

/** What a stream of Server-Sent Events says, in the order it says it. */
export type SseItem =
  | {
      readonly kind: 'event'
      /** Null where there was no `event:` line, or an empty one. */
      readonly name: string | null
      readonly data: string
      /** The value of the event's own `id:` line: null where it had none, '' where it reset the id. */
      readonly id: string | null
    }
  /** An event whose data is over the limit. It was skipped; the stream goes on with the next. */
  | { readonly kind: 'too-large'; readonly name: string | null; readonly id: string | null }
  /** The id moved without an event: a block with an `id:` line and no data. */
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'retry'; readonly ms: number }
  | { readonly kind: 'comment' }

export type SseParser = {
  /** The next bytes of the connection, cut anywhere. */
  push(bytes: Uint8Array): readonly SseItem[]
}

const COMMENT: SseItem = { kind: 'comment' }

/** The longest field name with its colon and blank. */
const FIELD_PREFIX = 'data: '.length
/** `id:` and `event:` lines may be at least this long before they are cut. */
const MIN_LINE_LIMIT = 65_536
/** What is kept of an over-long line that is not data: enough for the caller to see that it is too long. */
const CUT_LINE = 4096

const isData = (line: string): boolean => line.startsWith('data:') || line === 'data'

/**
 * A parser for one connection (WHATWG HTML 9.2, server-sent events); make a new one for each.
 *
 * `maxEventBytes` limits the data of an event, in bytes of UTF-8. Memory stays bounded by it, whatever arrives: a line
 * without an end, data lines without a blank one. It is about three times that for lines of any length, and up to forty
 * times for lines of one character, each of which is a string of its own until the event ends. Which events are too
 * large does not depend on how the bytes were cut.
 *
 * What stands unfinished when the connection ends is no event, and its id does not count: it never becomes an item.
 */
export function createSseParser(options: { maxEventBytes: number }): SseParser {
  const { maxEventBytes } = options
  const lineLimit = Math.max(maxEventBytes, MIN_LINE_LIMIT) + FIELD_PREFIX
  // One byte order mark is stripped below, by hand: a decoder that strips one too would take two.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let items: SseItem[] = []

  let started = false
  /** The line that has not ended yet. */
  let pending = ''
  /** The pending line is over the limit: what follows of it is dropped, `pending` is what will be fed in its place. */
  let dropping = false
  /** The last character was a CR: an LF that comes next belongs to it. */
  let afterCR = false
  /** Characters fed since the last event: no less than the data the parser holds for the next one. */
  let sinceEvent = 0
  /** Characters of data in the current block, as far as they came line by line. */
  let dataLength = 0
  /** The current block has more data than an event may have. */
  let oversize = false

  const parser = createParser({
    onEvent({ id, event, data }) {
      const tooLarge = oversize || (data.length * 3 > maxEventBytes && Buffer.byteLength(data) > maxEventBytes)
      sinceEvent = 0
      dataLength = 0
      oversize = false
      // The parser has told the id just before, as if it had moved alone.
      if (id !== undefined) items.pop()
      const name = event ?? null
      items.push(tooLarge ? { kind: 'too-large', name, id: id ?? null } : { kind: 'event', name, data, id: id ?? null })
    },
    onId: (id) => items.push({ kind: 'id', id }),
    onRetry: (ms) => items.push({ kind: 'retry', ms }),
    onComment: () => items.push(COMMENT),
  })
  // Ends the parser's own search for a byte order mark, in which it would also take the text "ï»¿" for one.
  parser.feed('\n')

  /** Whole lines, few enough characters that no event in them can be too large. The last one does not end in CR. */
  function feedWhole(text: string): void {
    sinceEvent += text.length
    const before = sinceEvent
    parser.feed(text)
    // An event was in it; what came after that event is at most this text.
    if (sinceEvent < before) sinceEvent = text.length
  }

  /** From here on the block's data is dropped, but for one empty line: so its end, name and id are still told. */
  function markOversize(): void {
    if (!oversize) parser.feed('data\n')
    oversize = true
  }

  /** One line without its end. */
  function feedLine(line: string): void {
    if (line === '') {
      parser.feed('\n')
      sinceEvent = 0
      return
    }
    sinceEvent += line.length + 1
    if (!isData(line)) return parser.feed(line.length > lineLimit ? `${line.slice(0, CUT_LINE)}\n` : `${line}\n`)
    // A line that is not the first adds its LF to the data; counting one for the first too is made good below.
    dataLength += Math.max(0, line.length - (line[5] === ' ' ? 6 : 5)) + 1
    if (dataLength - 1 > maxEventBytes) markOversize()
    if (!oversize) parser.feed(`${line}\n`)
  }

  /** Whole lines, one by one: where an event may be too large, or the last line ends in CR. */
  function feedLines(text: string): void {
    let lf = text.indexOf('\n')
    let cr = text.indexOf('\r')
    for (let start = 0; start < text.length;) {
      const end = cr === -1 ? lf : lf === -1 ? cr : Math.min(cr, lf)
      feedLine(text.slice(start, end))
      start = end + (end === cr && lf === cr + 1 ? 2 : 1)
      if (lf !== -1 && lf < start) lf = text.indexOf('\n', start)
      if (cr !== -1 && cr < start) cr = text.indexOf('\r', start)
    }
  }

  /** The start of a line whose end has not come. */
  function hold(text: string): void {
    if (dropping) return
    pending += text
    if (pending.length <= lineLimit) return
    dropping = true
    if (isData(pending.slice(0, FIELD_PREFIX))) {
      markOversize()
      pending = ''
    } else {
      pending = pending.slice(0, CUT_LINE)
    }
  }

  /** The end of an over-long line, and the whole lines after it. */
  function endDropped(text: string): void {
    const end = text.search(/[\r\n]/)
    if (pending !== '') feedLine(pending)
    pending = ''
    dropping = false
    feedLines(text.slice(end + (text.startsWith('\r\n', end) ? 2 : 1)))
  }

  function feedText(text: string): void {
    // Only the part behind the last LF is searched for a CR: most streams have none.
    const lf = text.lastIndexOf('\n')
    const end = Math.max(lf, text.indexOf('\r', lf + 1) === -1 ? -1 : text.lastIndexOf('\r')) + 1
    if (end === 0) return hold(text)
    const whole = text.slice(0, end)
    afterCR = text.endsWith('\r')
    if (dropping) {
      endDropped(whole)
    } else {
      const lines = pending === '' ? whole : pending + whole
      pending = ''
      const safe = !oversize && !lines.endsWith('\r') && sinceEvent + lines.length <= maxEventBytes
      if (safe) feedWhole(lines)
      else feedLines(lines)
    }
    if (end < text.length) hold(text.slice(end))
  }

  return {
    push(bytes) {
      items = []
      let text = decoder.decode(bytes, { stream: true })
      if (text === '') return items
      if (!started && text.startsWith('\uFEFF')) text = text.slice(1)
      started = true
      if (afterCR && text.startsWith('\n')) text = text.slice(1)
      afterCR = false
      if (text !== '') feedText(text)
      return items
    },
  }
}
