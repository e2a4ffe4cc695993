import { END, GAP, terminal, type RunEvent } from './event.ts'
import { FRESH_CURSOR, type Checkpoint, type JobCursor } from './records.ts'

/**
 * The cursors of a run's jobs are a fold over its stored events, so any owner that has read the log agrees on them.
 * A checkpoint is such a fold, stored; events it covers are skipped.
 */
export type Cursors = Checkpoint

export const EMPTY_CURSORS: Cursors = { index: 0, jobs: {} }

/** The cursors after one more event. `stream.end` moves the index only. */
export function advance(cursors: Cursors, event: RunEvent, terminalTypes: readonly string[]): Cursors {
  if (event.index <= cursors.index) return cursors
  if (event.type === END || event.job === null) return { ...cursors, index: event.index }
  const before = cursors.jobs[event.job] ?? FRESH_CURSOR
  return { index: event.index, jobs: { ...cursors.jobs, [event.job]: after(before, event, terminalTypes) } }
}

function after(before: JobCursor, event: RunEvent, terminalTypes: readonly string[]): JobCursor {
  if (event.type === GAP) {
    const unreachable = gapReason(event.data) === 'unreachable'
    return {
      ...before,
      ordinal: event.ordinal ?? before.ordinal,
      gap: true,
      ended: unreachable ? { reason: 'failed', detail: 'the agent was not reached again' } : before.ended,
    }
  }
  const end = terminal(event.type, event.data, terminalTypes)
  return {
    ordinal: event.ordinal ?? before.ordinal + 1,
    upstreamId: event.upstreamId,
    upstreamOffset: event.upstreamOffset,
    gap: false,
    ended: end === null ? before.ended : { reason: end, detail: null },
  }
}

function gapReason(data: string): unknown {
  try {
    return (JSON.parse(data) as { reason?: unknown }).reason
  } catch {
    return null
  }
}
