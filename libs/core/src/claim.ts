import type { Claim, RunStatus } from './records.ts'
import type { Parsed, RunSpec } from './run.ts'

/** What a relay knows of a run when it asks itself whether to claim it. Any of it may be a moment old. */
export type Seen = {
  /** Null: no registration (never, or deleted: a wish to cancel). */
  readonly wanted: Parsed<RunSpec> | null
  readonly claim: Claim | null
  readonly status: RunStatus | null
  /** What is known of the claim's boot. `unknown`: never heard of. */
  readonly holder: 'me' | 'alive' | 'dead' | 'unknown'
}

/**
 * - `leave`: over, not wanted, not valid, or in good hands.
 * - `claim`: nobody has it, or its owner is dead.
 * - `ask`: its owner was never heard of; ping it first.
 */
export type Decision = 'leave' | 'claim' | 'ask'

/** Whether to go for a run. The claim's revision decides whether it is had. */
export function decideClaim({ wanted, claim, status, holder }: Seen): Decision {
  if (status?.state === 'ended') return 'leave'
  // A deleted registration cancels: somebody has to end a run that was begun. One never begun needs no end.
  if (wanted === null && status === null) return 'leave'
  if (wanted !== null && !wanted.ok && status === null) return 'leave'
  if (claim === null) return wanted !== null && !wanted.ok ? 'leave' : 'claim'
  switch (holder) {
    case 'alive':
      return 'leave'
    case 'me':
    case 'dead':
      return wanted !== null && !wanted.ok ? 'leave' : 'claim'
    case 'unknown':
      return 'ask'
  }
}
