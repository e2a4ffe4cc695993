import { readConfig, type Environment } from '@baton/service/config'
import { appVariables } from '@baton/service/app-variables'
import { readThresholds, thresholdComplaints } from '@baton/service/thresholds'
import { allVariables, natsOf, secretPattern } from '@baton/service/variables'

/** A verdict comes at most a sixth of the smallest threshold late. */
const SWEEPS_PER_THRESHOLD = 6
const LEAST_SWEEP_MS = 200
const MOST_SWEEP_MS = 10_000

/** The watchdog's variables, checked, in the shape the code uses. Throws ConfigError with every complaint. */
export function watchdogConfig(environment: Environment) {
  const values = readConfig(environment, appVariables.watchdog, {
    others: allVariables,
    patterns: [secretPattern],
    relations: complaints,
  })
  const thresholds = readThresholds(values)
  const { quietMs, stallMs, disconnectMs, orphanMs } = thresholds
  const sweepMs = Math.min(quietMs, stallMs, disconnectMs, orphanMs) / SWEEPS_PER_THRESHOLD
  const url = values.BATON_WEBHOOK_URL
  return {
    nats: natsOf(values),
    logLevel: values.BATON_LOG_LEVEL,
    graceMs: values.BATON_GRACE_MS,
    healthPort: values.BATON_HEALTH_PORT,
    claim: { ttlMs: values.BATON_CLAIM_TTL_MS, renewMs: values.BATON_CLAIM_RENEW_MS },
    beatMs: values.BATON_BEAT_MS,
    logAgeMs: values.BATON_RUNS_MAX_AGE_MS,
    thresholds,
    sweepMs: Math.round(Math.min(MOST_SWEEP_MS, Math.max(LEAST_SWEEP_MS, sweepMs))),
    onOrphan: values.BATON_ON_ORPHAN,
    webhook: url === undefined ? null : { url, secret: values.BATON_WEBHOOK_SECRET ?? null },
  }
}

type Values = {
  readonly BATON_CLAIM_TTL_MS: number
  readonly BATON_CLAIM_RENEW_MS: number
  readonly BATON_WEBHOOK_URL?: string | undefined
} & Parameters<typeof thresholdComplaints>[0]

function complaints(values: Values): string[] {
  const { BATON_CLAIM_TTL_MS: ttlMs, BATON_CLAIM_RENEW_MS: renewMs, BATON_WEBHOOK_URL: url } = values
  return [
    ...thresholdComplaints(values),
    ...(ttlMs < 3 * renewMs ? [`BATON_CLAIM_TTL_MS: must be at least 3 × BATON_CLAIM_RENEW_MS (${3 * renewMs})`] : []),
    ...(url === undefined ? [] : webhookComplaints(new URL(url))),
  ]
}

function webhookComplaints({ protocol, username, password }: URL): string[] {
  if (!/^https?:$/.test(protocol)) return ['BATON_WEBHOOK_URL: must be an http or https URL']
  // No request can be made to it: every alert would be tried for a day, and then given up.
  if (username !== '' || password !== '') return ['BATON_WEBHOOK_URL: must hold no user or password']
  return []
}

export type WatchdogConfig = ReturnType<typeof watchdogConfig>
