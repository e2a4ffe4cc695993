import type { Position } from './position.ts'

/** Where an event stands: in the stream, and within its run. */
export type Place = { readonly sequence: number; readonly index: number }

/** A run's log as one position sees it. */
export type RunLog = {
  /** The oldest event still kept; null when nothing is. */
  readonly first: Place | null
  /** The newest event; null when nothing is kept. */
  readonly head: Place | null
  /** The first event after the position; null when there is none. */
  readonly after: Place | null
  /** The newest checkpoint's: where nothing is kept, the run stands there. 0 without one. */
  readonly checkpointIndex: number
  /** The last sequence of the whole stream. */
  readonly streamLast: number
}

export type ResetReason = 'trimmed' | 'recreated' | 'unknown-id'

/** `missed`: how many events of the run can no longer be had; null only where that cannot be known. */
export type Verdict =
  | { readonly valid: true }
  | { readonly valid: false; readonly reason: ResetReason; readonly missed: number | null }

/** The index the run stands at, whatever is still kept of it. */
const headIndex = (log: Pick<RunLog, 'head' | 'checkpointIndex'>): number => log.head?.index ?? log.checkpointIndex

/**
 * Can a client that has everything of this run up to `position` go on from there without a hole? The index decides,
 * for it is dense: the event after the position must be the next one, or the position must be the end of the run so
 * far. The sequence says only where to look, so that an id of another run does not pass for one of this.
 */
export function judgeRunPosition(position: Position, log: RunLog): Verdict {
  const { sequence, mark: index } = position
  const { first, after } = log
  if (after !== null ? after.index === index + 1 : index === headIndex(log)) return { valid: true }
  if (sequence > log.streamLast) return { valid: false, reason: 'recreated', missed: null }
  if (first === null) return { valid: false, reason: 'trimmed', missed: null }
  if (first.sequence > sequence && first.index > index + 1) {
    return { valid: false, reason: 'trimmed', missed: first.index - index - 1 }
  }
  return { valid: false, reason: 'unknown-id', missed: null }
}

/** The place just before the oldest kept event, or the end of a run of which nothing is kept. */
export function startOf(log: { first: Place | null; checkpoint: Place | null }): Place {
  const { first, checkpoint } = log
  if (first !== null) return { sequence: first.sequence - 1, index: first.index - 1 }
  return checkpoint ?? { sequence: 0, index: 0 }
}

/** A stream as a position with a time sees it: of a topic, or of a set of topics or runs. */
export type TimedLog = {
  /** Unix ms. */
  readonly createdAtMs: number
  /** The server's clock at that moment, unix ms. */
  readonly nowMs: number
  readonly firstSequence: number
  readonly lastSequence: number
  /** The time of the message at the position, unix ms; null where it is not kept. */
  readonly keptAtMs: number | null
  readonly bytes: number
  /** 0 or less: no limit. */
  readonly maxBytes: number
  /** 0 or less: no limit. */
  readonly maxAgeMs: number
  /** The stream's last sequence when its cap per subject was raised; 0 when it never was. */
  readonly raisedAt: number
}

/** Where the age of a log ends is known only to about so much: clocks differ, and old messages go a little late. */
const AGE_MARGIN_MS = 60_000
/** Below this share of its limit a stream has lost nothing to it. */
const FULL = 0.9

/** Does the position belong to another stream of the same name? */
export const isOfAnotherStream = ({ sequence, mark }: Position, log: TimedLog): boolean =>
  mark < log.createdAtMs || sequence > log.lastSequence || (log.keptAtMs !== null && log.keptAtMs !== mark)

/**
 * May the stream have lost messages after the position to its age or its size, or to a cap that was lower once? What a
 * subject lost to its own cap is another question. A stream loses its oldest first: where it still begins at or
 * before the next sequence, neither age nor size have taken anything from there on.
 */
export function mayHaveLost({ sequence, mark }: Position, log: TimedLog): boolean {
  if (sequence === log.lastSequence) return false
  if (sequence < log.raisedAt) return true
  if (log.firstSequence <= sequence + 1) return false
  const margin = Math.min(AGE_MARGIN_MS, log.maxAgeMs / 10)
  if (log.maxAgeMs > 0 && log.nowMs - mark >= log.maxAgeMs - margin) return true
  return log.maxBytes > 0 && log.bytes >= log.maxBytes * FULL
}
