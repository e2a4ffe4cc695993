import type { Code } from './errors.ts'

/**
 * What follows from what the log answers to one who writes it. An epoch is the sequence of an owner record; the newest
 * one is the only one that may write.
 */

/** A read of the log shows this owner record, 0 for none. Is it new enough to be believed by one who wrote `epoch`? */
export function judgeRead(ownerSequence: number, epoch: number): 'behind' | 'whole' | 'lost' {
  if (ownerSequence === epoch) return 'whole'
  // A stream is one order: what shows an older owner record, or none, may lack anything that was stored since.
  return ownerSequence > epoch ? 'lost' : 'behind'
}

/** An append of `epoch` was refused, for the newest owner record is another: a newer one, or the own one is gone. */
export const judgeRefusal = (ownerSequence: number, epoch: number): 'lost' | 'vanished' =>
  ownerSequence > epoch ? 'lost' : 'vanished'

/**
 * A new epoch could not be had. `prove`: whose the newest owner record is the claim must tell, before anything is built
 * upon it. `again`: nothing is decided, or it may be stored already; the same step tells. Null: no use.
 */
export function afterNoEpoch(code: Code): 'prove' | 'again' | null {
  if (code === 'lost' || code === 'conflict' || code === 'vanished') return 'prove'
  return code === 'in_flight' || code === 'unknown_outcome' || code === 'unavailable' || code === 'full'
    ? 'again'
    : null
}

/** An append that nobody knows the outcome of: `count` events from `firstIndex` on, written under `epoch`. */
export type Doubtful = { readonly firstIndex: number; readonly count: number; readonly epoch: number }

/** The run's last event and its checkpoint, as far as they say where it stands. */
export type Standing = {
  readonly last: { readonly index: number; readonly epoch: number } | null
  readonly checkpoint: { readonly index: number } | null
}

/**
 * What became of an append, by the tail as of a newer epoch, which shuts out whatever was still under way.
 * - `stored`: so many of its events are; 0 = none.
 * - `vanished`: events before it that were acknowledged are gone. The server has lost data; the log is the truth.
 * - `lost`: somebody had the run and gave it back meanwhile: these are not our events, and ours may be stored before them.
 */
export function settleAppend(
  { firstIndex, count, epoch }: Doubtful,
  { last, checkpoint }: Standing,
): { readonly kind: 'stored'; readonly count: number } | { readonly kind: 'vanished' | 'lost' } {
  const before = firstIndex - 1
  // Where nothing is kept any more, the checkpoint tells.
  const index = last?.index ?? checkpoint?.index ?? before
  if (last !== null && index < before) return { kind: 'vanished' }
  if (last !== null && index > before && last.epoch !== epoch) return { kind: 'lost' }
  return { kind: 'stored', count: Math.max(0, Math.min(count, index - before)) }
}
