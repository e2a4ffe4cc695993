import { agentName, END, GAP, type StoredEvent } from '@baton/core/event'
import { formatPosition } from '@baton/core/position'
import type { TimedEvent, TopicEvent } from '@baton/core/timed'

/**
 * Server-sent events on the way out (WHATWG HTML 9.2): events to blocks of text, blocks to chunks of HTTP/1.1.
 * Both are done once per event; every client gets the same bytes.
 */

/** `plain`: the agent's own name and data. `envelope`: everything known of the event as JSON, under no name. */
export type Format = 'plain' | 'envelope'

/** What a stream's response carries. `no-transform` keeps compressors away, which would hold events back. */
export const STREAM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** A comment block: bytes for proxies and watchdogs, nothing for the application. */
export const HEARTBEAT = ': heartbeat\n\n'

/**
 * The first lines of a stream: the wait before a reconnect, and a comment for clients that show nothing before the
 * first bytes. No blank line: they open the block of the first event.
 */
export const opening = (retryMs: number): string => `${retryLine(retryMs)}: baton\n`

/** `retry:` takes digits only, and a delay beyond 2^31 − 1 ms fires at once in Node's timers. */
const retryLine = (ms: number): string => `retry: ${Math.min(Math.max(Math.round(ms), 0), 2 ** 31 - 1)}\n`

/** A stored event as a block. */
export function formatEvent(event: StoredEvent, format: Format): string {
  const id = `id: ${formatPosition({ sequence: event.sequence, mark: event.index })}\n`
  if (isOwn(event)) return `${id}event: ${event.type}\n${dataLines(event.data)}\n`
  if (format === 'envelope') return `${id}${dataLines(json(envelope(event)))}\n`
  return `${id}${nameLine(event.name)}${dataLines(event.data)}\n`
}

/** An event of a topic, or of one of several runs, as a block. Several runs are told apart only by the envelope. */
export function formatTimed({ sequence, atMs, event }: TimedEvent, format: Format): string {
  const id = `id: ${formatPosition({ sequence, mark: atMs })}\n`
  if ('topic' in event) {
    if (format === 'envelope') return `${id}${dataLines(json(topicEnvelope(event)))}\n`
    return `${id}${nameLine(event.topic)}${dataLines(event.data)}\n`
  }
  if (!isOwn(event)) return `${id}${dataLines(json(envelope(event)))}\n`
  return `${id}event: ${event.type}\n${dataLines(json({ run: event.run, ...objectOf(event.data) }))}\n`
}

const topicEnvelope = ({ topic, sequence, type, time, data }: TopicEvent): TopicEvent => ({
  topic,
  sequence,
  type,
  time,
  data,
})

/** The data of one of Baton's own events, which somebody may have written by hand. */
function objectOf(data: string): object {
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

/** Baton's own stored events keep their name and bare data in every format. */
const isOwn = (event: StoredEvent): boolean => event.type === END || event.type === GAP

/** An event with all that is known of it, as `format=envelope` and the history show it. */
export type Envelope = {
  readonly run: string
  readonly job: string | null
  readonly index: number
  readonly sequence: number
  readonly type: string
  readonly time: string
  /** Of the event's own `id:` line: null where it had none, '' where it reset the id. */
  readonly id: string | null
  readonly data: string
}

export const envelope = (event: StoredEvent): Envelope => ({
  run: event.run,
  job: event.job,
  index: event.index,
  sequence: event.sequence,
  type: event.type,
  time: event.time,
  id: event.upstreamOffset === 0 ? event.upstreamId : null,
  data: event.data,
})

/** One of Baton's own frames (`stream.open`, `stream.bye`, …). Without an id the client keeps the one it has. */
export function formatOwn(
  name: `stream.${string}`,
  data: object,
  options: { id?: string; retryMs?: number } = {},
): string {
  const { id, retryMs } = options
  const head = `${id === undefined ? '' : `id: ${oneLine(id)}\n`}${retryMs === undefined ? '' : retryLine(retryMs)}`
  return `${head}event: ${name}\n${dataLines(json(data))}\n`
}

/** The name an agent sent; none, or an empty one, has no line. */
const nameLine = (name: string | null): string =>
  name === null || name === '' ? '' : `event: ${agentName(oneLine(name))}\n`

/** CR and LF would end the line and begin a field of somebody else's choice; NUL makes clients drop an id. */
// oxlint-disable-next-line no-control-regex
const oneLine = (text: string): string => text.replace(/[\r\n\0]/g, '\u{FFFD}')

/** A line each for what CR LF, CR or LF divides: the three ends of a line a parser knows. */
function dataLines(data: string): string {
  if (!data.includes('\n') && !data.includes('\r')) return `data: ${data}\n`
  return `data: ${data.split(/\r\n|\r|\n/).join('\ndata: ')}\n`
}

/** Some clients split lines at these too, against the standard; JSON may spell them otherwise. */
const json = (value: object): string =>
  JSON.stringify(value).replace(
    /[\u0085\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/**
 * A block as one chunk of a chunked response (RFC 9112 §7.1), length and all: Node frames a chunk anew for every
 * client, which costs more than the write itself.
 */
export function toChunk(block: string): Buffer {
  const length = Buffer.byteLength(block)
  const size = `${length.toString(16)}\r\n`
  const chunk = Buffer.allocUnsafe(size.length + length + 2)
  chunk.write(size, 0, 'latin1')
  chunk.write(block, size.length, 'utf8')
  chunk.write('\r\n', size.length + length, 'latin1')
  return chunk
}

/** The block of a chunk, in the same memory: what a client of HTTP/1.0 gets. */
export const chunkBody = (chunk: Buffer): Buffer => chunk.subarray(chunk.indexOf(0x0a) + 1, chunk.length - 2)
