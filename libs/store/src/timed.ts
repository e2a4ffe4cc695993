import type { JsMsg, StoredMsg } from '@nats-io/jetstream'
import type { Msg } from '@nats-io/nats-core'
import { isTopic } from '@baton/core/ids'
import type { TimedEvent } from '@baton/core/timed'
import { decodeEvent, decodeHeader, HEADER, type EventMessage } from './codec.ts'
import type { DirectMessage } from './direct-get.ts'
import { runSubject, topicSubject } from './names.ts'
import { rawHeaders } from './raw-headers.ts'

/** A byte order mark at the start of an event's data is data. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

type Stored = EventMessage & { readonly subject: string; readonly sequence: number; readonly atMs: number }

const TOPIC = topicSubject('')
const RUN = runSubject('')

/** What a message of TOPICS or RUNS is; null for one that is no event of either, whoever has put it there. */
function eventOf(message: Stored): TimedEvent['event'] | null {
  const { subject, sequence, atMs } = message
  if (subject.startsWith(RUN)) return decodeEvent(subject.slice(RUN.length), sequence, message)
  const topic = subject.slice(TOPIC.length)
  // A name of ours that somebody published under must not reach a client as a frame of ours.
  if (!subject.startsWith(TOPIC) || !isTopic(topic)) return null
  const type = find(message, HEADER.type)
  return {
    topic,
    sequence,
    type: type === null || type === '' ? 'message' : decodeHeader(type),
    time: new Date(atMs).toISOString(),
    data: utf8.decode(message.data),
  }
}

function find({ headers }: EventMessage, name: string): string | null {
  if (headers === undefined || headers === null) return null
  return 'find' in headers ? headers.find(name) : headers.has(name) ? headers.get(name) : null
}

function timed(message: Stored, previous: number | null): TimedEvent | null {
  const event = eventOf(message)
  const { subject, sequence, atMs } = message
  return event === null ? null : { sequence, atMs, subject, previous, loss: null, event }
}

/** A message that a consumer has delivered. */
export function fromConsumer(message: JsMsg): TimedEvent | null {
  const { subject, seq: sequence, data, headers } = message
  const stored = { subject, sequence, atMs: deliveredAtMs(message), data, headers }
  return timed(stored, null)
}

/**
 * The time in the reply subject, which nats.js reads as a number it cannot hold exactly: rounded, it might be of the
 * next millisecond, and a position carries this one.
 */
function deliveredAtMs(message: JsMsg): number {
  const tokens = (message as JsMsg & { readonly reply: string }).reply.split('.')
  return Number((tokens[tokens.length === 9 ? 7 : 9] ?? '').slice(0, -6))
}

/** A message that the stream has republished (NATS ADR-28). Null for what somebody else published there. */
export function fromLive(message: Msg): TimedEvent | null {
  const headers = rawHeaders(message)
  const sequence = Number(headers?.stamped('Nats-Sequence'))
  const previous = Number(headers?.stamped('Nats-Last-Sequence'))
  const atMs = Date.parse(headers?.stamped('Nats-Time-Stamp') ?? '')
  const subject = headers?.stamped('Nats-Subject')
  if (headers === null || typeof subject !== 'string' || Number.isNaN(atMs)) return null
  if (!Number.isSafeInteger(sequence) || sequence < 1 || !Number.isSafeInteger(previous)) return null
  return timed({ subject, sequence, atMs, data: message.data, headers }, previous)
}

/** A message that was asked for. */
export function fromStored(found: StoredMsg): TimedEvent | null {
  const { subject, seq: sequence, data, header: headers } = found
  return timed({ subject, sequence, atMs: found.time.getTime(), data, headers }, null)
}

/** A message that some replica has answered. */
export function fromDirect({ subject, seq: sequence, data, headers }: DirectMessage): TimedEvent | null {
  const atMs = Date.parse(headers.stamped('Nats-Time-Stamp') ?? '')
  return timed({ subject, sequence, atMs, data, headers }, null)
}
