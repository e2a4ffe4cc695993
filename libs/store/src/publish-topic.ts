import { createHash } from 'node:crypto'
import { headers } from '@nats-io/nats-core'
import { setTimeout as delay } from 'node:timers/promises'
import { BatonError, isCode } from '@baton/core/errors'
import type { Position } from '@baton/core/position'
import { BATCH_BYTES, BATCH_MESSAGES, publishBatch, type BatchMessage } from './batch.ts'
import { encodeHeader, HEADER } from './codec.ts'
import type { Nats } from './connect.ts'
import { STREAM, topicSubject } from './names.ts'
import { directGet } from './direct-get.ts'
import { publish, type Ack } from './publish.ts'
import { positionBefore } from './timed-log.ts'

/** One event to be published. `type` null: its publisher gave it none. */
export type TopicMessage = { readonly topic: string; readonly type: string | null; readonly data: string }

/** What the store says of an event that it has. */
export type Stored = {
  readonly stream: string
  readonly sequence: number
  /** It was published before under the same key, and `sequence` is that of the first time. */
  readonly duplicate: boolean
}

export type Published = Stored & {
  /** A client that has this has everything up to and with the event: where to follow on from. */
  readonly position: Position
}

/** Headers, and what the server adds to them when it republishes, count towards its max_payload. */
const HEADROOM_BYTES = 8 * 1024
/** Longer than for other requests: an answer given up is one that the publisher has to ask for again. */
const PUBLISH_TIMEOUT_MS = 3000
const BATCH_ATTEMPTS = 5
const BATCH_PAUSE_MS = 50

/** Scoped, or one publisher's key would swallow another's event: the server compares nothing but this. */
export const messageId = (publisher: string, topic: string, key: string): string =>
  createHash('sha256')
    .update(JSON.stringify([publisher, topic, key]))
    .digest('base64url')

/** The data of one event may have so many bytes. */
const maxDataBytes = ({ nc }: Nats): number => Math.max(0, (nc.info?.max_payload ?? 2 ** 20) - HEADROOM_BYTES)

function encode(nats: Nats, { topic, type, data }: TopicMessage): BatchMessage {
  const payload = new TextEncoder().encode(data)
  const limit = maxDataBytes(nats)
  if (payload.length > limit) throw new BatonError('too_large', `an event has at most ${limit} bytes`)
  const map = headers()
  if (type !== null) map.set(HEADER.type, encodeHeader(type))
  return { subject: topicSubject(topic), payload, headers: map }
}

/**
 * Stores one event. With an id it is stored once within the stream's window, however often it is sent. Throws
 * `too_large`, `unavailable`, `unknown_outcome`, `full`.
 */
export async function publishTopic(nats: Nats, message: TopicMessage, id: string | null): Promise<Published> {
  const stored = await storeTopic(nats, message, id)
  return { ...stored, position: await positionOf(nats, stored.sequence) }
}

/** As `publishTopic`, by who may read nothing: without the position, which only the log knows. */
export async function storeTopic(nats: Nats, message: TopicMessage, id: string | null): Promise<Stored> {
  const { subject, payload, headers: map } = encode(nats, message)
  if (id !== null) map.set('Nats-Msg-Id', id)
  const { stream, sequence, duplicate } = await publish(nats, subject, payload, map, PUBLISH_TIMEOUT_MS)
  if (stream !== STREAM.topics) throw new BatonError('unsupported', `${subject} is stored in another stream: ${stream}`)
  return { stream, sequence, duplicate }
}

/** Stores events all or none, in their order. Throws as `publishTopic` does. */
export async function publishTopics(nats: Nats, messages: readonly TopicMessage[]): Promise<readonly Published[]> {
  const batch = messages.map((message) => encode(nats, message))
  const bytes = batch.reduce((sum, { payload }) => sum + payload.length, 0)
  if (batch.length > BATCH_MESSAGES || bytes > BATCH_BYTES) {
    throw new BatonError('too_large', `together at most ${BATCH_MESSAGES} events and ${BATCH_BYTES} bytes`)
  }
  const { stream, sequence: last } = await storeBatch(nats, batch)
  // A batch is stored with nothing in between.
  const positions = await positionsOf(nats, last - batch.length + 1, last)
  return positions.map((position) => ({ stream, sequence: position.sequence, position, duplicate: false }))
}

/** A batch that the server gave up, as it does where too many are open, is not stored: it can be sent again. */
async function storeBatch(nats: Nats, batch: readonly BatchMessage[]): Promise<Ack> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await publishBatch(nats, batch, PUBLISH_TIMEOUT_MS)
    } catch (error) {
      if (!isCode(error, 'in_flight') || attempt >= BATCH_ATTEMPTS) throw error
      await delay(BATCH_PAUSE_MS * attempt)
    }
  }
}

/** An ack has no time in it; the position of an event needs it. Throws `unavailable`, `denied`. */
export const positionOf = (nats: Nats, sequence: number): Promise<Position> =>
  positionBefore(nats, STREAM.topics, sequence + 1)

/** The positions of all sequences from `first` to `last`, by one question, and more where a replica is behind. */
async function positionsOf(nats: Nats, first: number, last: number): Promise<readonly Position[]> {
  const count = last - first + 1
  const request = { seq: first, next_by_subj: topicSubject('>'), batch: count, max_bytes: 2 * BATCH_BYTES }
  const found = await directGet(nats, STREAM.topics, request, PUBLISH_TIMEOUT_MS).catch(() => [])
  const times = new Map(found.map(({ seq, headers: map }) => [seq, Date.parse(map.stamped('Nats-Time-Stamp') ?? '')]))
  return Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const mark = times.get(first + at)
      return mark === undefined || Number.isNaN(mark) ? positionOf(nats, first + at) : { sequence: first + at, mark }
    }),
  )
}
