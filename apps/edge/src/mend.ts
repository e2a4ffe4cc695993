import { BatonError } from '@baton/core/errors'
import { formatPosition, type Position } from '@baton/core/position'
import { judgeRunPosition, type ResetReason } from '@baton/core/servable'
import { formatOwn } from '@baton/sse/format'
import type { Nats } from '@baton/store/connect'
import { readNext } from '@baton/store/read-log'

/** Longer requests are cut: what a client sends is not sent back to it at any length. */
const REQUESTED_BYTES = 128

/** Where the state of a run can be read. */
export const stateOfRun = (run: string): string => `/runs/${run}`

/** What a client is told whose position cannot be served. */
export type ResetNotice = {
  readonly reason: ResetReason
  readonly requested: string
  /** Where it goes on instead. */
  readonly place: Position
  readonly missed: number | null
}

/** What is said of a reset, in a frame and in a page of history. */
export const resetOf = (state: string | null, { reason, requested, place, missed }: ResetNotice) => ({
  reason,
  // As a stream, the decoder keeps a character that was cut through to itself.
  requested: new TextDecoder().decode(Buffer.from(requested).subarray(0, REQUESTED_BYTES), { stream: true }),
  resumesAt: formatPosition(place),
  missed,
  state,
})

/** The frame that tells a client that its position cannot be served, and where it goes on instead. */
export const resetBlock = (state: string | null, reset: ResetNotice): string =>
  formatOwn('stream.reset', resetOf(state, reset), { id: formatPosition(reset.place) })

/**
 * The log lacks what comes after `last`: says where it goes on and what was lost, after the leader has confirmed it.
 * Throws `unavailable` when the leader has what seemed to be missing.
 */
export async function mend(
  nats: Nats,
  run: string,
  last: Position,
): Promise<{ place: Position; block: string; reset: ResetNotice }> {
  const next = await readNext(nats, run, last.sequence, 'leader')
  if (next === null) throw new BatonError('unavailable', `run ${run}: the log ends where it should go on`)
  const verdict = judgeRunPosition(last, {
    first: next,
    head: next,
    after: next,
    checkpointIndex: 0,
    streamLast: next.sequence,
  })
  if (verdict.valid) throw new BatonError('unavailable', `run ${run}: the log was read with a hole it does not have`)
  const place = { sequence: next.sequence - 1, mark: next.index - 1 }
  const { reason, missed } = verdict
  const reset = { reason, missed, requested: formatPosition(last), place }
  return { place, block: resetBlock(stateOfRun(run), reset), reset }
}
