import type { Thresholds } from '@baton/core/judge'
import { commonVariables, relayVariables, watchdogVariables } from './variables.ts'

const { BATON_LIVENESS_TTL_MS, BATON_PROGRESS_TTL_MS } = commonVariables
const { BATON_CLAIM_TTL_MS } = relayVariables
const { BATON_QUIET_MS, BATON_STALL_MS, BATON_DISCONNECT_MS, BATON_ORPHAN_MS } = watchdogVariables

/** What everybody needs who judges runs: a watchdog, and an edge that shows how they fare. */
export const thresholdVariables = {
  BATON_QUIET_MS,
  BATON_STALL_MS,
  BATON_DISCONNECT_MS,
  BATON_ORPHAN_MS,
  BATON_CLAIM_TTL_MS,
  BATON_LIVENESS_TTL_MS,
  BATON_PROGRESS_TTL_MS,
}

type Values = Readonly<Record<keyof typeof thresholdVariables, number>>

/** The thresholds of runs that have none of their own. */
export const readThresholds = (values: Values): Thresholds => ({
  quietMs: values.BATON_QUIET_MS,
  stallMs: values.BATON_STALL_MS,
  disconnectMs: values.BATON_DISCONNECT_MS,
  orphanMs: values.BATON_ORPHAN_MS,
  // Longer than any takeover: within this a claim whose holder is dead has expired, too.
  ownerlessMs: values.BATON_CLAIM_TTL_MS,
})

/** A heartbeat that has expired says "older than its time to live": no threshold may lie beyond that. */
export function thresholdComplaints(values: Values): string[] {
  const beyond = (name: keyof Values, limit: keyof Values): string[] =>
    values[name] > values[limit] ? [`${name}: must be at most ${limit} (${values[limit]})`] : []
  return [
    ...beyond('BATON_DISCONNECT_MS', 'BATON_LIVENESS_TTL_MS'),
    ...beyond('BATON_QUIET_MS', 'BATON_PROGRESS_TTL_MS'),
    ...beyond('BATON_STALL_MS', 'BATON_PROGRESS_TTL_MS'),
    ...beyond('BATON_ORPHAN_MS', 'BATON_PROGRESS_TTL_MS'),
  ]
}
