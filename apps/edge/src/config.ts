import { readConfig, type Environment } from '@baton/service/config'
import type { Thresholds } from '@baton/core/judge'
import { appVariables } from '@baton/service/app-variables'
import { readThresholds, thresholdComplaints } from '@baton/service/thresholds'
import { allVariables, natsOf, secretPattern, topologyOf } from '@baton/service/variables'
import type { AuthConfig } from './access/keys.ts'
import { readAuth, type AuthValues } from './access/read-auth.ts'
import { trustedProxies } from './client-address.ts'

/** What an edge is told by its operator and its tests; sizes in bytes, times in milliseconds, 0 = no limit where said. */
export type EdgeConfig = {
  readonly heartbeatMs: number
  /** Nothing is written to a client while so much waits in its socket. */
  readonly clientBufferBytes: number
  /** Streams one client may open per second; 0 = no limit. */
  readonly opensPerClient: number
  /** Streams all clients together may open per second; 0 = no limit. */
  readonly opensTotal: number
  /** Events one publisher may store per second; 0 = no limit. */
  readonly publishPerSecond: number
  /** Where the state of a topic can be read, with `{topic}` in it; null where nobody said. */
  readonly topicStateUrl: string | null
  /** Streams and waiting requests of one client at a time; 0 = no limit. */
  readonly connectionsPerClient: number
  /** Which tokens are asked for; null = none. */
  readonly auth: AuthConfig | null
  /** A ticket that nobody has opened for so long is none any more. */
  readonly ticketOpenMs: number
  /** Open streams; 0 = no limit. */
  readonly maxConnections: number
  /** After about so long a client is asked to come back, so that load spreads over edges. */
  readonly maxAgeMs: number
  /** Origins whose pages may read; `*` for all. */
  readonly corsOrigins: readonly string[]
  /** Addresses of proxies whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[]
  /** A socket that takes no byte for so long is closed. */
  readonly stallMs: number
  /** A feed stays so long after its last client: reconnects find their events in its ring. */
  readonly lingerMs: number
  /** An idle feed looks at its log this often. */
  readonly checkMs: number
  /** What the rings of all feeds may hold together. */
  readonly ringsBytes: number
  /** When runs that have no thresholds of their own are quiet, stalled and so on. */
  readonly thresholds: Thresholds
}

export const EDGE_DEFAULTS: EdgeConfig = {
  heartbeatMs: 15_000,
  clientBufferBytes: 262_144,
  opensPerClient: 20,
  opensTotal: 1000,
  publishPerSecond: 1000,
  topicStateUrl: null,
  maxConnections: 10_000,
  connectionsPerClient: 0,
  auth: null,
  ticketOpenMs: 60_000,
  maxAgeMs: 2_700_000,
  corsOrigins: [],
  trustedProxies: [],
  stallMs: 10_000,
  lingerMs: 5000,
  checkMs: 5000,
  ringsBytes: 256 * 2 ** 20,
  thresholds: { quietMs: 60_000, stallMs: 3_600_000, disconnectMs: 300_000, orphanMs: 3_600_000, ownerlessMs: 15_000 },
}

type Values = AuthValues & {
  readonly BATON_HOST: string
  readonly BATON_AUTH?: 'none' | 'jwt' | undefined
  readonly BATON_AUTH_NONE_I_KNOW: '0' | '1'
  readonly BATON_TRUSTED_PROXIES: readonly string[]
  readonly BATON_TOPIC_STATE_URL?: string | undefined
} & Parameters<typeof thresholdComplaints>[0]

/** Of one subject. An address may be that of a crowd, so where no token tells them apart there is no limit unasked. */
const CONNECTIONS_PER_SUBJECT = 1000

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)

/** Nobody gets an open edge who did not ask for one. */
function authComplaints(values: Values): string[] {
  if (values.BATON_AUTH === 'jwt') return [...readAuth(values).complaints]
  if (
    values.BATON_JWKS_URL !== undefined ||
    values.BATON_JWT_AUDIENCE !== undefined ||
    values.BATON_JWT_ALGS.length > 0 ||
    values.BATON_JWT_KEY_FILE !== undefined ||
    values.BATON_JWT_ISSUERS.length > 0
  ) {
    return [
      'BATON_AUTH: keys, issuers or the like of tokens are given, but nothing would check them; leave them out or say jwt',
    ]
  }
  if (isLoopback(values.BATON_HOST)) return []
  if (values.BATON_AUTH === undefined) return [`BATON_AUTH: must be given, for others can reach ${values.BATON_HOST}`]
  return values.BATON_AUTH_NONE_I_KNOW === '1'
    ? []
    : [
        `BATON_AUTH: none lets everybody who reaches ${values.BATON_HOST} in; set BATON_AUTH_NONE_I_KNOW=1 if that is meant`,
      ]
}

function complaints(values: Values): string[] {
  const origins = values.BATON_CORS_ORIGINS.filter(
    (origin) => origin !== '*' && !(URL.canParse(origin) && new URL(origin).origin === origin),
  ).map((origin) => `BATON_CORS_ORIGINS: ${origin} is no origin (https://host, without a path)`)
  return [
    ...authComplaints(values),
    ...origins,
    ...proxyComplaints(values.BATON_TRUSTED_PROXIES),
    ...stateComplaints(values.BATON_TOPIC_STATE_URL),
    ...thresholdComplaints(values),
  ]
}

const stateComplaints = (template: string | undefined): string[] =>
  template === undefined || (template.includes('{topic}') && /^(https?:\/\/.|\/)/.test(template))
    ? []
    : ['BATON_TOPIC_STATE_URL: must be a URL, or a path of this edge, with {topic} in it']

function proxyComplaints(entries: readonly string[]): string[] {
  try {
    trustedProxies(entries)
    return []
  } catch (error) {
    return [`BATON_TRUSTED_PROXIES: ${(error as Error).message}`]
  }
}

/** The edge's variables, checked, in the shape the code uses. Throws ConfigError with every complaint. */
export function readEdgeConfig(environment: Environment) {
  const values = readConfig(environment, appVariables.edge, {
    others: allVariables,
    patterns: [secretPattern],
    relations: complaints,
  })
  const auth = values.BATON_AUTH === 'jwt' ? readAuth(values).auth : null
  const edge: EdgeConfig = {
    ...EDGE_DEFAULTS,
    heartbeatMs: values.BATON_HEARTBEAT_MS,
    clientBufferBytes: values.BATON_CLIENT_BUFFER_BYTES,
    opensPerClient: values.BATON_OPENS_PER_CLIENT,
    opensTotal: values.BATON_OPENS_TOTAL,
    publishPerSecond: values.BATON_PUBLISH_PER_SECOND,
    topicStateUrl: values.BATON_TOPIC_STATE_URL ?? null,
    maxConnections: values.BATON_MAX_CONNECTIONS,
    connectionsPerClient: values.BATON_CONNECTIONS_PER_CLIENT ?? (auth === null ? 0 : CONNECTIONS_PER_SUBJECT),
    auth,
    maxAgeMs: values.BATON_MAX_AGE_MS,
    corsOrigins: values.BATON_CORS_ORIGINS,
    trustedProxies: values.BATON_TRUSTED_PROXIES,
    thresholds: readThresholds(values),
  }
  return {
    edge,
    host: values.BATON_HOST,
    port: values.BATON_PORT,
    graceMs: values.BATON_GRACE_MS,
    logLevel: values.BATON_LOG_LEVEL,
    nats: natsOf(values),
    topology: topologyOf(values),
  }
}
