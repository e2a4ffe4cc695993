import { advance, cursorsByTail, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import type { Checkpoint } from '@baton/core/records'
import type { Nats } from './connect.ts'
import { rest } from './rest.ts'
import { readEvents, type Tail } from './write-log.ts'

/**
 * Where each job of a run stands, from the log alone: the checkpoint and the events after it, at most a thousand; read
 * only where the last event does not say it all.
 */
export async function readCursors(
  nats: Nats,
  run: { id: string; jobs: readonly string[]; terminalTypes: readonly string[] },
  tail: Tail,
  signal: AbortSignal,
): Promise<Checkpoint> {
  const checkpoint = tail.checkpoint ?? EMPTY_CHECKPOINT
  const { last } = tail
  const known = cursorsByTail(checkpoint, last, run)
  if (known !== null || last === null) return known ?? checkpoint
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
