import { isConnected, type Verdict } from './judge.ts'
import type { Presence } from './observation.ts'
import type { RunEnd } from './event.ts'
import { WATCHDOG, type Claim, type JobCursor, type JobStatus, type RunStatus } from './records.ts'
import type { Parsed, RunSpec } from './run.ts'

export const RUN_STATES = ['waiting', 'running', 'ended', 'invalid'] as const
export type RunState = (typeof RUN_STATES)[number]

/** Ended is final; an invalid registration is nobody's; running means that somebody has it, or has had it. */
export function runState(spec: Parsed<RunSpec> | null, status: RunStatus | null, claim: Claim | null): RunState {
  if (status?.state === 'ended') return 'ended'
  if (spec?.ok === false) return 'invalid'
  return claim !== null || status?.state === 'running' ? 'running' : 'waiting'
}

/**
 * The verdict to show of a run in this state. What nobody can run has none; what nobody has begun does not run, but that
 * nobody begins it is trouble in the end.
 */
export function verdictIn(state: RunState, verdict: Verdict | null): Verdict | null {
  if (state === 'invalid') return null
  const isTrouble = verdict === 'disconnected' || verdict === 'orphaned'
  return state === 'waiting' && !isTrouble ? null : verdict
}

/** A watchdog that holds a claim is ending the run, not tailing it. */
export const presenceOf = (status: RunStatus | null, claim: Claim | null): Presence => ({
  owned: claim !== null && claim.relay !== WATCHDOG,
  connected: isConnected(status),
})

type Standing = Pick<JobStatus, 'state' | 'reason'>

const OVER: ReadonlySet<JobStatus['state']> = new Set(['completed', 'failed', 'cancelled'])

/**
 * How a job stands of a run whose end is in the log: who has just read that end must not be told that the job goes on,
 * which its status may say for a moment more. `ended` is what the job's own events say of its end.
 */
export function jobAtEnd(
  before: Standing,
  ended: JobCursor['ended'],
  end: RunEnd,
  { isOnly }: { readonly isOnly: boolean },
): Standing {
  if (OVER.has(before.state)) return before
  if (ended !== null) return { state: endState(ended.reason), reason: ended.detail }
  // An answer of the agent ended it, or nothing did: which of several jobs has failed so only the status tells.
  if (end.reason === 'orphaned' || (end.reason === 'failed' && !isOnly)) return before
  return { state: endState(end.reason), reason: end.detail ?? null }
}

/** The state of a job that ended so. */
export const endState = (reason: RunEnd['reason']): JobStatus['state'] =>
  reason === 'failed' || reason === 'cancelled' ? reason : 'completed'
