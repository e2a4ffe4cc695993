import { advance, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import type { Checkpoint } from '@baton/core/records'
import type { Nats } from './connect.ts'
import { rest } from './rest.ts'
import { readEvents, type Tail } from './run-log.ts'

/**
 * Where each job of a run stands, from the log alone: the checkpoint and the events after it, at most a thousand. With
 * one job the last event says it all, and nothing more is read: a relay that takes over 500 runs at once has no time.
 */
export async function readCursors(
  nats: Nats,
  run: { id: string; jobs: readonly string[]; terminalTypes: readonly string[] },
  tail: Tail,
  signal: AbortSignal,
): Promise<Checkpoint> {
  const checkpoint = tail.checkpoint ?? EMPTY_CHECKPOINT
  const { last } = tail
  if (last === null || last.index <= checkpoint.index) return checkpoint
  if (run.jobs.length === 1 && last.job === run.jobs[0]) {
    return advance({ ...checkpoint, index: last.index - 1 }, last, run.terminalTypes)
  }
  for (;;) {
    let cursors = checkpoint
    for await (const event of readEvents(nats, run.id, checkpoint.sequence + 1, signal)) {
      cursors = advance(cursors, event, run.terminalTypes)
    }
    // A replica may be behind the tail that was read at the epoch.
    if (cursors.index >= last.index) return cursors
    await rest(50, signal)
  }
}
