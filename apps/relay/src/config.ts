import { hostname } from 'node:os'
import { readConfig, type Environment } from '@baton/service/config'
import { appVariables } from '@baton/service/app-variables'
import { allVariables, natsOf, secretPattern, topologyOf } from '@baton/service/variables'
import { isAllowEntry } from './guard-address.ts'

/** The relay's variables, checked, in the shape the code uses. Throws ConfigError with every complaint. */
export function relayConfig(environment: Environment) {
  const values = readConfig(environment, appVariables.relay, {
    others: allVariables,
    patterns: [secretPattern],
    relations: (v) => [
      ...(v.BATON_CLAIM_TTL_MS < 3 * v.BATON_CLAIM_RENEW_MS
        ? [`BATON_CLAIM_TTL_MS: must be at least 3 × BATON_CLAIM_RENEW_MS (${3 * v.BATON_CLAIM_RENEW_MS})`]
        : []),
      ...v.BATON_UPSTREAM_ALLOW.filter((entry) => !isAllowEntry(entry)).map(
        (entry) => `BATON_UPSTREAM_ALLOW: ${entry} is neither a network (10.0.0.0/8), an address nor a host name`,
      ),
    ],
  })
  const secrets = Object.entries(environment)
    .filter(([name, value]) => secretPattern.test(name) && value !== undefined)
    .map(([name, value]): [string, string] => [name.slice('BATON_SECRET_'.length), value ?? ''])
  return {
    nats: natsOf(values),
    logLevel: values.BATON_LOG_LEVEL,
    graceMs: values.BATON_GRACE_MS,
    relay: values.BATON_RELAY_ID ?? hostname(),
    capacity: values.BATON_RELAY_CAPACITY,
    healthPort: values.BATON_HEALTH_PORT,
    claim: { ttlMs: values.BATON_CLAIM_TTL_MS, renewMs: values.BATON_CLAIM_RENEW_MS },
    beatMs: values.BATON_BEAT_MS,
    heartbeatWriteMs: values.BATON_HEARTBEAT_WRITE_MS,
    livenessTtlMs: values.BATON_LIVENESS_TTL_MS,
    progressTtlMs: values.BATON_PROGRESS_TTL_MS,
    upstream: {
      silenceMs: values.BATON_UPSTREAM_SILENCE_MS,
      giveUpMs: values.BATON_UPSTREAM_GIVE_UP_MS,
      allow: values.BATON_UPSTREAM_ALLOW,
      maxEventBytes: values.BATON_MAX_EVENT_BYTES,
      secrets: new Map(secrets),
    },
    topology: topologyOf(values),
  }
}

export type RelayConfig = ReturnType<typeof relayConfig>
