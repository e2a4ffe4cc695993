import { headers, type MsgHdrs } from '@nats-io/nats-core'
import { parseCheckpoint } from '@baton/core/cursor'
import { BatonError, isCode } from '@baton/core/errors'
import type { RunEvent, StoredEvent } from '@baton/core/event'
import type { Checkpoint, OwnerRecord } from '@baton/core/records'
import { judgeRead, judgeRefusal } from '@baton/core/settle'
import { publishBatch } from './batch.ts'
import { decodeEvent, eventHeaders, type EventMessage } from './codec.ts'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'
import { directGet } from './direct-get.ts'
import { cursorSubject, ownerSubject, runSubject, STREAM } from './names.ts'
import { fromNats } from './nats-errors.ts'
import { publish } from './publish.ts'
import { readNext } from './read-log.ts'

/**
 * The writing side of a run's log. The order that keeps it whole, for whoever owns the run:
 * read the owner record's sequence → claim by revision → owner record by compare-and-set on that sequence → read
 * the tail → append, every append fenced by the owner record. Who sleeps between two steps loses at the next one.
 */

/** What every write to a run carries: the stream sequence of the owner record it stands on. */
export type Fence = { readonly run: string; readonly epoch: number }

export type Tail = {
  readonly last: StoredEvent | null
  readonly checkpoint: Checkpoint | null
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

/** The newest owner record; sequence 0 where there is none. May be behind: the compare-and-set that follows tells. */
export async function readOwner(nats: Nats, run: string): Promise<{ sequence: number; record: OwnerRecord | null }> {
  try {
    const found = await nats.jsm.direct.getMessage(STREAM.runs, { last_by_subj: ownerSubject(run) })
    return found === null ? { sequence: 0, record: null } : { sequence: found.seq, record: parseOwner(found.string()) }
  } catch (error) {
    throw fromNats(error, `read the owner of run ${run}`)
  }
}

/** Is the owner record of this epoch the newest of its run, by the word of the leader? Throws `unavailable`. */
export const isNewestOwner = async (nats: Nats, { run, epoch }: Fence): Promise<boolean> =>
  (await leaderLast(nats, ownerSubject(run)))?.seq === epoch

/** Whoever wrote it, its sequence fences; what it says is for people. */
function parseOwner(text: string): OwnerRecord | null {
  try {
    return JSON.parse(text) as OwnerRecord
  } catch {
    return null
  }
}

/**
 * Stores an owner record where the last one is still `expected`; its sequence is the new epoch.
 * Throws `conflict` with the sequence found, `in_flight` (retry, never loss), `unknown_outcome`.
 */
export async function assertOwner(nats: Nats, run: string, expected: number, owner: OwnerRecord): Promise<number> {
  const map = headers()
  map.set('Nats-Expected-Last-Subject-Sequence', String(expected))
  map.set('Nats-TTL', 'never')
  const ack = await publish(nats, ownerSubject(run), encode(JSON.stringify(owner)), map)
  return ack.sequence
}

/** How long a direct get of the tail may take before the leader is asked: a paused replica must not cost a takeover. */
const TAIL_TIMEOUT_MS = 100

/**
 * The run's last event and checkpoint, read at least as new as the epoch: an answer that shows the epoch shows
 * everything before it, for a stream is one order. Throws `lost` when a newer owner exists, `vanished` when the
 * owner record is gone, `unavailable`.
 */
export async function readTail(nats: Nats, fence: Fence): Promise<Tail> {
  const { run } = fence
  const subjects = [runSubject(run), ownerSubject(run), cursorSubject(run)]
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const found = await directGet(nats, STREAM.runs, { multi_last: subjects }, TAIL_TIMEOUT_MS)
      const tail = tailAt(fence, found)
      if (tail !== 'behind') return await withLastEvent(nats, run, tail)
    } catch (error) {
      if (!isCode(error, 'unavailable')) throw error
    }
  }
  // The leader knows no multi_last; three reads are safe, since nothing of an older epoch can follow our record.
  const found = await Promise.all(subjects.map((subject) => leaderLast(nats, subject)))
  const tail = tailAt(
    fence,
    found.filter((message) => message !== null),
  )
  if (tail !== 'behind') return await withLastEvent(nats, run, tail)
  throw new BatonError('vanished', `run ${run}: the owner record of epoch ${fence.epoch} is gone`)
}

/**
 * Somebody published by hand to the subject of the run, and the last message is no event: the leader is asked for the
 * one before it, step by step from the checkpoint. Taken for an empty log, it would be numbered anew.
 */
async function withLastEvent(nats: Nats, run: string, { scribbled, ...tail }: FoundTail): Promise<Tail> {
  if (!scribbled) return tail
  let last: StoredEvent | null = null
  for (let after = Math.max(0, (tail.checkpoint?.sequence ?? 0) - 1); ; after = last.sequence) {
    const next = await readNext(nats, run, after, 'leader')
    if (next === null) return { ...tail, last }
    last = next
  }
}

type FoundTail = Tail & { readonly scribbled: boolean }
type TailMessage = EventMessage & { readonly subject: string; readonly seq: number }

function tailAt({ run, epoch }: Fence, found: readonly TailMessage[]): FoundTail | 'behind' {
  const of = (subject: string) => found.find((message) => message.subject === subject)
  const owner = of(ownerSubject(run))
  const read = judgeRead(owner?.seq ?? 0, epoch)
  if (read === 'behind') return read
  if (read === 'lost') throw new BatonError('lost', `run ${run}: epoch ${owner?.seq} has replaced epoch ${epoch}`)
  const newest = of(runSubject(run))
  const last = newest === undefined ? null : decodeEvent(run, newest.seq, newest)
  const cursor = of(cursorSubject(run))
  return {
    last,
    checkpoint: cursor === undefined ? null : parseCheckpoint(new TextDecoder().decode(cursor.data)),
    scribbled: newest !== undefined && last === null,
  }
}

async function leaderLast(nats: Nats, subject: string): Promise<TailMessage | null> {
  try {
    const found = await nats.jsm.streams.getMessage(STREAM.runs, { last_by_subj: subject })
    return found === null ? null : { subject, seq: found.seq, data: found.data, headers: found.header }
  } catch (error) {
    const known = fromNats(error, `read the last of ${subject}`)
    if (known.code === 'not_found') return null
    throw known
  }
}

const PAGE_EVENTS = 1000
const PAGE_BYTES = 4 * 2 ** 20

/** The run's events from a stream sequence on, oldest first, page by page, up to what the answering server has. */
export async function* readEvents(
  nats: Nats,
  run: string,
  fromSequence: number,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent, void, void> {
  for (let seq = Math.max(1, fromSequence); ;) {
    signal.throwIfAborted()
    const request = { seq, next_by_subj: runSubject(run), batch: PAGE_EVENTS, max_bytes: PAGE_BYTES }
    const page = await directGet(nats, STREAM.runs, request, 5 * REQUEST_TIMEOUT_MS)
    for (const message of page) {
      const event = decodeEvent(run, message.seq, message)
      if (event !== null) yield event
    }
    const last = page.at(-1)
    if (last === undefined || last.pending <= 0) return
    seq = last.seq + 1
  }
}

/** Puts the fence on a message's headers: refused once the newest owner record is another. */
function fenced(fence: Fence, map: MsgHdrs): MsgHdrs {
  map.set('Nats-Expected-Last-Subject-Sequence', String(fence.epoch))
  map.set('Nats-Expected-Last-Subject-Sequence-Subject', ownerSubject(fence.run))
  return map
}

/** A refused fence is loss only when a newer owner record did it; with an older one or none the record vanished. */
function refusal(fence: Fence, error: unknown): unknown {
  if (!isCode(error, 'conflict') || error.actual === null) return error
  const { run, epoch } = fence
  const what = judgeRefusal(error.actual, epoch)
  const why =
    what === 'lost' ? `epoch ${error.actual} has replaced epoch ${epoch}` : `the owner record of epoch ${epoch} is gone`
  return new BatonError(what, `run ${run}: ${why}`, { cause: error })
}

/**
 * Appends events, all or none, in one fenced write: a publish for one, an atomic batch for more. At most one append
 * of a run may be in flight: a fence does not see a message lost in the middle of a window.
 * Throws `lost`, `vanished`, `in_flight` (nothing stored, retry), `unknown_outcome` (take a new epoch), `unavailable`.
 */
export async function append(
  nats: Nats,
  fence: Fence,
  events: readonly RunEvent[],
  timeoutMs: number,
): Promise<number> {
  const subject = runSubject(fence.run)
  const messages = events.map((event) => ({ subject, payload: encode(event.data), headers: eventHeaders(event) }))
  const [first] = messages
  if (first === undefined) throw new BatonError('invalid', 'nothing to append')
  fenced(fence, first.headers)
  try {
    const ack =
      messages.length === 1
        ? await publish(nats, subject, first.payload, first.headers, timeoutMs)
        : await publishBatch(nats, messages, timeoutMs)
    return ack.sequence
  } catch (error) {
    throw refusal(fence, error)
  }
}

/** Stores the fold of the run's events, fenced; the newest one counts. */
export async function writeCheckpoint(nats: Nats, fence: Fence, checkpoint: Checkpoint): Promise<void> {
  const map = fenced(fence, headers())
  map.set('Nats-TTL', 'never')
  try {
    await publish(nats, cursorSubject(fence.run), encode(JSON.stringify(checkpoint)), map)
  } catch (error) {
    throw refusal(fence, error)
  }
}

/**
 * After `stream.end`: the owner record and the checkpoint once more, each rolled up to one and given the log's age
 * to live, so that an ended run leaves nothing behind. Without the roll-up an older owner record would come back when
 * the last one expires, and its zombie could write after the end. The new owner record is the last epoch.
 */
export async function sealRecords(
  nats: Nats,
  fence: Fence,
  owner: OwnerRecord,
  checkpoint: Checkpoint,
  ageMs: number,
): Promise<void> {
  const ttl = `${Math.max(1, Math.ceil(ageMs / 1000))}s`
  const sealed = (map: MsgHdrs): MsgHdrs => {
    map.set('Nats-TTL', ttl)
    map.set('Nats-Rollup', 'sub')
    return map
  }
  try {
    await publish(nats, cursorSubject(fence.run), encode(JSON.stringify(checkpoint)), sealed(fenced(fence, headers())))
    const map = headers()
    map.set('Nats-Expected-Last-Subject-Sequence', String(fence.epoch))
    await publish(nats, ownerSubject(fence.run), encode(JSON.stringify(owner)), sealed(map))
  } catch (error) {
    throw refusal(fence, error)
  }
}
