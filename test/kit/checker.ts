import { checkClient } from './check-client.ts'
import { checkEpochs } from './check-epochs.ts'
import { checkLog } from './check-log.ts'
import { checkTails, type Span } from './check-tails.ts'
import type { RunHistory, Violation } from './history.ts'

export type Allowances = {
  /** How long two upstream connections of one job may overlap, I5. */
  readonly overlapMs: number
  /** When the history was taken: the end of what is still open. */
  readonly nowMs: number
  /** When some process was paused. Default: never. */
  readonly frozen?: readonly Span[]
  /** Was something trimmed or made anew, so that a client may be reset? Default false. */
  readonly resets?: boolean
  /** Were all owner records seen as they were written? Default true. */
  readonly ownersKnown?: boolean
}

/** Judges the history of one run by I1, I2, I3 and I5 (libs/core/SPEC.md). Pure: no clock, no I/O; empty = all hold. */
export function check(history: RunHistory, allowances: Allowances): Violation[] {
  const { overlapMs, nowMs, frozen = [], resets = false, ownersKnown = true } = allowances
  return [
    ...checkLog(history),
    ...checkEpochs(history, { ownersKnown }),
    ...history.clients.flatMap((client) => checkClient(history, client, { resets })),
    ...checkTails(history, { boundMs: overlapMs, nowMs, frozen }),
  ]
}
