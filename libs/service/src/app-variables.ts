import { whole } from './config.ts'
import { thresholdVariables } from './thresholds.ts'
import { commonVariables, edgeVariables, relayVariables, watchdogVariables } from './variables.ts'

/** A watchdog that ends an orphan claims it as a relay would, so it needs to know how long claims live. */
const { BATON_HEALTH_PORT, BATON_CLAIM_RENEW_MS, BATON_BEAT_MS } = relayVariables

/** Everything each app reads from its environment. */
export const appVariables = {
  relay: { ...commonVariables, ...relayVariables },
  edge: { ...commonVariables, ...edgeVariables, ...thresholdVariables },
  watchdog: {
    ...commonVariables,
    ...watchdogVariables,
    ...thresholdVariables,
    BATON_HEALTH_PORT,
    BATON_CLAIM_RENEW_MS,
    BATON_BEAT_MS,
  },
  agent: { BATON_HOST: edgeVariables.BATON_HOST, BATON_PORT: whole(9000, 0, 65_535) },
}
