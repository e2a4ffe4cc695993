import type { StoredMsg } from '@nats-io/jetstream'
import { nuid } from '@nats-io/nats-core'
import { AckPolicy, DeliverPolicy, type StreamInfo } from '@nats-io/jetstream'
import type { Position } from '@baton/core/position'
import { isCode } from '@baton/core/errors'
import type { TimedLog } from '@baton/core/servable'
import type { TimedEvent } from '@baton/core/timed'
import type { Nats } from './connect.ts'
import { directGet, type DirectMessage } from './direct-get.ts'
import { readLedInfo } from './led.ts'
import { fromNats } from './nats-errors.ts'
import type { Part } from './replay.ts'
import { fromDirect, fromStored } from './timed.ts'

/**
 * The reading side of topics and of several runs: where a part of a stream begins and ends, and what its leader says
 * of the stream as a whole. All of it is asked of the leader, for positions are promised by it.
 */

type Query = { seq: number } | { last_by_subj: string } | { seq: number; next_by_subj: string } | { start_time: Date }

/** A stream at one moment, by its leader's word. */
export type StreamView = Omit<TimedLog, 'keptAtMs'> & {
  /** The newest message, or where there never was one, the creation: the position of who has received nothing. */
  readonly last: Position
  /** Messages kept per subject; 0 or less: no limit. */
  readonly cap: number
  readonly replicas: number
}

async function get(nats: Nats, stream: string, query: Query): Promise<StoredMsg | null> {
  try {
    return await nats.jsm.streams.getMessage(stream, query as never)
  } catch (error) {
    const known = fromNats(error, `read stream ${stream}`)
    if (known.code === 'not_found') return null
    throw known
  }
}

/** Throws `unavailable`; `not_found` where there is no such stream. */
export const viewStream = async (nats: Nats, stream: string): Promise<StreamView> =>
  toView(await readLedInfo(nats, stream))

export function toView({ config, created, state, ...info }: StreamInfo): StreamView {
  const createdAtMs = Date.parse(created)
  const lastAtMs = Date.parse(state.last_ts)
  // The server's own time stands in every answer; the type leaves it out.
  const { ts } = info as { ts?: string }
  return {
    createdAtMs,
    nowMs: ts === undefined ? Date.now() : Date.parse(ts),
    firstSequence: state.first_seq,
    lastSequence: state.last_seq,
    bytes: state.bytes,
    maxBytes: config.max_bytes,
    maxAgeMs: config.max_age / 1_000_000,
    raisedAt: Number(config.metadata?.['raised_at'] ?? 0),
    last: { sequence: state.last_seq, mark: state.last_seq === 0 ? createdAtMs : Math.max(createdAtMs, lastAtMs) },
    cap: config.max_msgs_per_subject,
    replicas: config.num_replicas,
  }
}

/** The first event of a part after a sequence; null when there is none. */
export async function readNextOf(nats: Nats, part: Part, after: number): Promise<TimedEvent | null> {
  const found = await Promise.all(part.subjects.map((subject) => nextUnder(nats, part.stream, subject, after)))
  return found.reduce((first, one) => (one !== null && (first === null || one.sequence < first.sequence) ? one : first))
}

async function nextUnder(nats: Nats, stream: string, subject: string, after: number): Promise<TimedEvent | null> {
  for (let seq = after + 1; ;) {
    const found = await get(nats, stream, { seq, next_by_subj: subject })
    if (found === null) return null
    const event = fromStored(found)
    if (event !== null) return event
    // Published by hand under a name that is no topic; the log goes on after it.
    seq = found.seq + 1
  }
}

/** How long one replica may take to answer, and how many are asked. */
const REPLICA_MS = 500
const REPLICAS_ASKED = 3

/**
 * The sequence of the newest message of a part after `after`, up to `upTo`, by the word of a replica that has all up to
 * there (one that is behind finds nothing at all, NATS ADR-31); 0 when there is none, null when none can tell: all are
 * behind, nothing of the part is kept up to there, or its subjects are too many to ask for at once.
 */
export async function newestBetween(nats: Nats, part: Part, after: number, upTo: number): Promise<number | null> {
  const found = await lastMessages(nats, part, upTo)
  return found.length === 0 ? null : Math.max(0, ...found.map(({ seq }) => seq).filter((seq) => seq > after))
}

/**
 * The newest event of each subject of a part up to a sequence, by a replica that has all up to there. None where nothing is
 * kept up to there, and where no replica can tell.
 */
export async function lastUpTo(nats: Nats, part: Part, upTo: number): Promise<readonly TimedEvent[]> {
  return (await lastMessages(nats, part, upTo)).flatMap((message) => fromDirect(message) ?? [])
}

async function lastMessages(nats: Nats, part: Part, upTo: number): Promise<readonly DirectMessage[]> {
  if (upTo < 1) return []
  const request = { multi_last: [...part.subjects], up_to_seq: upTo }
  for (let asked = 0; asked < REPLICAS_ASKED; asked++) {
    try {
      const found = await directGet(nats, part.stream, request, REPLICA_MS)
      if (found.length > 0) return found
    } catch (error) {
      if (!isCode(error, 'unavailable')) throw error
    }
  }
  return []
}

/** The newest event of a part; null when none is kept. */
export async function readLastOf(nats: Nats, part: Part): Promise<TimedEvent | null> {
  const { stream, subjects } = part
  const found = await Promise.all(subjects.map((subject) => get(nats, stream, { last_by_subj: subject })))
  const events = found.flatMap((message) => (message === null ? [] : (fromStored(message) ?? [])))
  return events.reduce<TimedEvent | null>(
    (last, one) => (last === null || one.sequence > last.sequence ? one : last),
    null,
  )
}

/** When the message at a sequence was stored, unix ms; null where it is not kept. */
export async function readTimeAt(nats: Nats, stream: string, sequence: number): Promise<number | null> {
  return sequence < 1 ? null : ((await get(nats, stream, { seq: sequence }))?.time.getTime() ?? null)
}

/**
 * The position right before a sequence. Where the message there is gone, nobody can compare its time: that of the next
 * one kept stands for it.
 */
export async function positionBefore(nats: Nats, stream: string, sequence: number): Promise<Position> {
  const at = await readTimeAt(nats, stream, sequence - 1)
  if (at !== null) return { sequence: sequence - 1, mark: at }
  const next = await get(nats, stream, { seq: sequence, next_by_subj: '>' })
  return next === null ? (await viewStream(nats, stream)).last : { sequence: sequence - 1, mark: next.time.getTime() }
}

/** The position right before the first message stored at or after an instant; the end where there is none. */
export async function positionAtTime(nats: Nats, stream: string, atMs: number): Promise<Position> {
  const found = await get(nats, stream, { start_time: new Date(atMs) })
  return found === null ? (await viewStream(nats, stream)).last : positionBefore(nats, stream, found.seq)
}

/** Steps of a search by halves: enough for any sequence. */
const MAX_STEPS = 54

/** The sequence of the `count`-th last message of a part; of its oldest where fewer are kept, null where none is. */
export async function findLast(nats: Nats, part: Part, count: number, view: StreamView): Promise<number | null> {
  // From `low` on there are at least `count`, or `low` is the beginning; from `high` on there are fewer.
  let [low, high] = [Math.max(1, view.firstSequence), view.lastSequence + 1]
  for (let step = 0; step < MAX_STEPS && high - low > 1; step++) {
    const middle = Math.floor((low + high) / 2)
    if ((await countFrom(nats, part, middle)) >= count) low = middle
    else high = middle
  }
  return (await readNextOf(nats, part, low - 1))?.sequence ?? null
}

/** How many messages of a part are kept from a sequence on: a consumer is told so when it is made. */
async function countFrom(nats: Nats, { stream, subjects }: Part, from: number): Promise<number> {
  try {
    const consumer = await nats.jsm.consumers.add(stream, {
      name: `baton-count-${nuid.next()}`,
      filter_subjects: [...subjects],
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
      ack_policy: AckPolicy.None,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: 5_000_000_000,
    })
    void nats.jsm.consumers.delete(stream, consumer.name).catch(() => undefined)
    return consumer.num_pending
  } catch (error) {
    throw fromNats(error, `count in stream ${stream}`)
  }
}
