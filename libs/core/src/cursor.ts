import { headOf, ownId } from './emission.ts'
import { END, GAP, terminal, type StoredEvent } from './event.ts'
import { FRESH_CURSOR, type Checkpoint, type JobCursor } from './records.ts'

export const EMPTY_CHECKPOINT: Checkpoint = { index: 0, sequence: 0, jobs: {} }

/** Reads a checkpoint. Null for what no owner wrote: whatever stands there, the events themselves say the same. */
export function parseCheckpoint(text: string): Checkpoint | null {
  try {
    const value = JSON.parse(text) as Partial<Checkpoint> | null
    const { index, sequence, jobs } = value ?? {}
    if (!Number.isSafeInteger(index) || !Number.isSafeInteger(sequence)) return null
    if (typeof jobs !== 'object' || jobs === null) return null
    return Object.values(jobs).every((job) => Number.isSafeInteger(job?.ordinal)) ? (value as Checkpoint) : null
  } catch {
    return null
  }
}

/** Where a job stands; fresh where nothing is known of it. A name may be one that every object knows: `constructor` is one. */
export const cursorOf = ({ jobs }: Checkpoint, job: string): JobCursor =>
  (Object.hasOwn(jobs, job) ? jobs[job] : undefined) ?? FRESH_CURSOR

/** What of an event moves a cursor. */
export type CursorEvent = Pick<
  StoredEvent,
  'index' | 'sequence' | 'job' | 'type' | 'name' | 'data' | 'ordinal' | 'upstreamId' | 'upstreamOffset'
>

/**
 * The cursors of a run's jobs after one more event: a fold over the stored events, so any owner that has read the log
 * agrees on them. A checkpoint is such a fold, stored; events it covers change nothing.
 */
export function advance(cursors: Checkpoint, event: CursorEvent, terminalTypes: readonly string[]): Checkpoint {
  if (event.index <= cursors.index) return cursors
  const { index, sequence, job } = event
  if (event.type === END || job === null) return { ...cursors, index, sequence }
  const before = cursorOf(cursors, job)
  return { index, sequence, jobs: { ...cursors.jobs, [job]: after(before, event, terminalTypes) } }
}

/**
 * The cursors of a run by its checkpoint and its last event alone, where these two say it all; null where the events
 * between them have to be read. With one job they do: a relay that takes over 500 runs at once has no time to read.
 */
export function cursorsByTail(
  checkpoint: Checkpoint,
  last: CursorEvent | null,
  run: { readonly jobs: readonly string[]; readonly terminalTypes: readonly string[] },
): Checkpoint | null {
  if (last === null || last.index <= checkpoint.index) return checkpoint
  if (run.jobs.length !== 1 || last.job !== run.jobs[0]) return null
  return advance({ ...checkpoint, index: last.index - 1 }, last, run.terminalTypes)
}

function after(before: JobCursor, event: CursorEvent, terminalTypes: readonly string[]): JobCursor {
  const { upstreamId, upstreamOffset } = event
  const ordinal = event.ordinal ?? before.ordinal
  if (event.type === GAP) {
    const failed = gapReason(event.data) === 'unreachable'
    const ended = failed ? ({ reason: 'failed', detail: 'the agent was not reached again' } as const) : before.ended
    return { ordinal, upstreamId, upstreamOffset, gap: true, head: before.head, ended }
  }
  const end = terminal(event.type, event.data, terminalTypes)
  const ended = end === null ? before.ended : { reason: end, detail: null }
  const head = ordinal === 1 ? headOf({ id: ownId(event), name: event.name, data: event.data }) : before.head
  return { ordinal, upstreamId, upstreamOffset, gap: false, head, ended }
}

function gapReason(data: string): unknown {
  try {
    return (JSON.parse(data) as { reason?: unknown }).reason
  } catch {
    return null
  }
}
