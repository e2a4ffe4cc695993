import type { StoredMsg } from '@nats-io/jetstream'
import { setTimeout as delay } from 'node:timers/promises'
import { parseCheckpoint } from '@baton/core/cursor'
import type { StoredEvent } from '@baton/core/event'
import type { Position } from '@baton/core/position'
import type { Checkpoint } from '@baton/core/records'
import { judgeRunPosition, type Place, type RunLog, type Verdict } from '@baton/core/servable'
import { decodeEvent } from './codec.ts'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'
import { directGet } from './direct-get.ts'
import { readLedInfo } from './led.ts'
import { fromNats } from './nats-errors.ts'
import { cursorSubject, runSubject, STREAM } from './names.ts'
import { rest } from './rest.ts'

/**
 * The reading side of a run's log: where it begins, where it stands, what comes after a place. Any replica answers
 * fast and may be behind; the leader is asked before anybody is told that something is not there.
 */

/** Who may answer. */
export type Asked = 'any' | 'leader'

/** What is kept of a run. */
export type Extent = {
  /** The oldest event kept; null when none is. */
  readonly first: StoredEvent | null
  /** The newest event; null when none is kept. */
  readonly head: StoredEvent | null
  readonly checkpoint: Checkpoint | null
}

const event = (run: string, found: StoredMsg): StoredEvent | null =>
  decodeEvent(run, found.seq, { data: found.data, headers: found.header })

async function get(
  nats: Nats,
  query: { last_by_subj: string } | { seq: number; next_by_subj: string },
  asked: Asked,
): Promise<StoredMsg | null> {
  try {
    return asked === 'leader'
      ? await nats.jsm.streams.getMessage(STREAM.runs, query)
      : await nats.jsm.direct.getMessage(STREAM.runs, query)
  } catch (error) {
    const known = fromNats(error, 'read the log')
    if (known.code === 'not_found') return null
    throw known
  }
}

/** The run's first event after a stream sequence; null when there is none. Throws `unavailable`. */
export async function readNext(nats: Nats, run: string, after: number, asked: Asked): Promise<StoredEvent | null> {
  for (let seq = after + 1; ;) {
    const found = await get(nats, { seq, next_by_subj: runSubject(run) }, asked)
    if (found === null) return null
    const known = event(run, found)
    if (known !== null) return known
    // Somebody published by hand what is no event; the log goes on after it.
    seq = found.seq + 1
  }
}

/** The run's newest event; null when none is kept. Throws `unavailable`. */
export async function readHead(nats: Nats, run: string, asked: Asked): Promise<StoredEvent | null> {
  const found = await get(nats, { last_by_subj: runSubject(run) }, asked)
  return found === null ? null : (event(run, found) ?? headBefore(nats, run, found.seq))
}

/** So many come in one answer; the server allows 1,024. */
const RUNS_AT_ONCE = 500

/** The index of the newest event of each of these runs that has one, a moment behind. Throws `unavailable`. */
export async function readHeadIndexes(nats: Nats, runs: readonly string[]): Promise<Map<string, number>> {
  const heads = new Map<string, number>()
  for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) {
    const asked = new Map(runs.slice(at, at + RUNS_AT_ONCE).map((run) => [runSubject(run), run]))
    for (const found of await directGet(nats, STREAM.runs, { multi_last: [...asked.keys()] }, REQUEST_TIMEOUT_MS)) {
      const run = asked.get(found.subject) ?? ''
      const known = decodeEvent(run, found.seq, found)
      if (known !== null) heads.set(run, known.index)
    }
  }
  return heads
}

/** The newest event below a message that is none. */
async function headBefore(nats: Nats, run: string, sequence: number): Promise<StoredEvent | null> {
  for (let below = sequence; below > 1;) {
    const request = { multi_last: [runSubject(run)], up_to_seq: below - 1 }
    const [found] = await directGet(nats, STREAM.runs, request, REQUEST_TIMEOUT_MS)
    if (found === undefined) return null
    const known = decodeEvent(run, found.seq, found)
    if (known !== null) return known
    below = found.seq
  }
  return null
}

/** The run's newest checkpoint. */
export async function readCheckpoint(nats: Nats, run: string, asked: Asked): Promise<Checkpoint | null> {
  const found = await get(nats, { last_by_subj: cursorSubject(run) }, asked)
  return found === null ? null : parseCheckpoint(found.string())
}

/** What is kept of a run. The parts are read at once, so the head may be a little newer than the first. */
export async function readExtent(nats: Nats, run: string, asked: Asked): Promise<Extent> {
  const [first, head, checkpoint] = await Promise.all([
    readNext(nats, run, 0, asked),
    readHead(nats, run, asked),
    readCheckpoint(nats, run, asked),
  ])
  return { first, head, checkpoint }
}

export type StreamState = { readonly lastSequence: number; readonly replicas: number }

/** The leader's word on the whole stream. Throws `unavailable`. */
export async function readStream(nats: Nats): Promise<StreamState> {
  const { state, config } = await readLedInfo(nats, STREAM.runs)
  return { lastSequence: state.last_seq, replicas: config.num_replicas }
}

/** Does the log hold the very event that a position names? Its leader's word. Throws `unavailable`. */
export async function isKept(nats: Nats, run: string, { sequence, mark }: Position): Promise<boolean> {
  if (sequence < 1) return false
  const found = await readNext(nats, run, sequence - 1, 'leader')
  return found?.sequence === sequence && found.index === mark
}

/** How long a position that seems to lie ahead of the log may be that of a replica that has not caught up. */
const LAG_MS = 2000
const LAG_STEP_MS = 100

/**
 * Does a stream end before this sequence, which somebody has got from it? Then it was made anew. That it seems to, an
 * election can make for a moment: only what stays so is believed. Throws `unavailable`.
 */
export async function endsBefore(nats: Nats, stream: string, sequence: number): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += LAG_STEP_MS) {
    const { state, config } = await readLedInfo(nats, stream)
    if (state.last_seq >= sequence) return false
    if (config.num_replicas === 1 || waitedMs >= LAG_MS) return true
    await delay(LAG_STEP_MS)
  }
}

/** Can a client go on from this position? "No" is the leader's word. Throws `unavailable`, and the signal's reason. */
export async function judgePosition(
  nats: Nats,
  run: string,
  position: Position,
  signal: AbortSignal,
): Promise<Verdict> {
  // Only "valid" counts here, and neither the stream's end nor the oldest event has a say in that.
  const seen = await look(nats, run, position, 'any')
  if (judgeRunPosition(position, { ...seen, streamLast: 0 }).valid) return { valid: true }
  for (let waitedMs = 0; ; waitedMs += LAG_STEP_MS) {
    const seen = await look(nats, run, position, 'leader')
    // Last, for it also says whether whoever has answered may still be believed.
    const { lastSequence, replicas } = await readStream(nats)
    const log = { ...seen, streamLast: lastSequence }
    const verdict = judgeRunPosition(position, log)
    if (verdict.valid || replicas === 1 || waitedMs >= LAG_MS || !isAhead(position, log)) return verdict
    await rest(LAG_STEP_MS, signal)
  }
}

/** A position beyond the log may be one a new leader has not applied yet; one within it will not become right. */
const isAhead = (position: Position, log: Omit<RunLog, 'streamLast'>): boolean =>
  log.after === null && position.mark > (log.head?.index ?? log.checkpointIndex)

/**
 * The log around a position. The head is read before what comes after the position: the other way round an event
 * stored in between would make a position at the head look foreign.
 */
async function look(nats: Nats, run: string, position: Position, asked: Asked): Promise<Omit<RunLog, 'streamLast'>> {
  const [head, checkpoint] = await Promise.all([readHead(nats, run, asked), readCheckpoint(nats, run, asked)])
  const after = await readNext(nats, run, position.sequence, asked)
  const first = asked === 'leader' ? await readNext(nats, run, 0, asked) : null
  return { first, head, after, checkpointIndex: checkpoint?.index ?? 0 }
}

/**
 * The place just before the run's event `index`, which lies between `first` and `head`; null when it was trimmed
 * meanwhile. The events of a run lie anywhere in the stream, so it is searched for: by a guess in proportion, then by
 * halves, in turn.
 */
export async function findBefore(
  nats: Nats,
  run: string,
  index: number,
  first: Place,
  head: Place,
): Promise<Place | null> {
  // The next event after `low` is at most the one sought, the next one after `high` is beyond it.
  let low = { sequence: first.sequence - 1, index: first.index - 1 }
  let high = { sequence: head.sequence, index: head.index }
  for (let step = 0; low.sequence < high.sequence; step++) {
    const share = step % 2 === 0 ? (index - 1 - low.index) / (high.index - low.index) : 0.5
    const width = high.sequence - low.sequence
    const probe = low.sequence + Math.min(width - 1, Math.floor(width * Math.max(0, share)))
    const found = await readNext(nats, run, probe, 'any')
    if (found?.index === index) return { sequence: found.sequence - 1, index: index - 1 }
    if (found === null || found.index > index)
      high = { sequence: probe, index: Math.min(high.index, found?.index ?? high.index) }
    else low = { sequence: found.sequence, index: found.index }
  }
  return null
}
