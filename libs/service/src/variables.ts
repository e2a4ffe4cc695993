import { z } from 'zod'
import { WATCHDOG } from '@baton/core/records'
import { list, whole } from './config.ts'
import { credentialsComplaint } from './credentials-file.ts'
import { LOG_LEVELS } from './log.ts'

const GiB = 2 ** 30
const day = 86_400_000
/** Node waits no longer than this: a timer for more ends at once. */
const LONGEST_WAIT_MS = 2 ** 31 - 1

/** The variables every app knows. */
export const commonVariables = {
  BATON_NATS_URL: z
    .string()
    .default('nats://127.0.0.1:4222')
    .transform((text) => text.split(',').map((part) => part.trim()))
    .refine(
      (urls) =>
        urls.every((url) =>
          url.includes('://') ? /^(nats|tls):/.test(url) && URL.canParse(url) : URL.canParse(`nats://${url}`),
        ),
      'must be NATS URLs (nats://host:4222)',
    ),
  BATON_NATS_CREDS: z
    .string()
    .superRefine((path, context) => {
      const message = credentialsComplaint(path)
      if (message !== null) context.addIssue({ code: 'custom', message })
    })
    .optional(),
  BATON_NATS_INBOX_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/, 'must be tokens of [A-Za-z0-9_-] joined by dots')
    .optional(),
  BATON_REPLICAS: z.enum(['1', '3']).default('1').transform(Number),
  BATON_LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  BATON_RUNS_MAX_BYTES: whole(10 * GiB, 1_048_576),
  BATON_TOPICS_MAX_BYTES: whole(10 * GiB, 1_048_576),
  BATON_GRACE_MS: whole(25_000, 100, 3_600_000),
  BATON_RUN_EVENTS: whole(10_000, 1, 10_000_000),
  BATON_TOPIC_EVENTS: whole(1000, 1, 10_000_000),
  BATON_RUNS_MAX_AGE_MS: whole(7 * day, 1000),
  BATON_TOPICS_MAX_AGE_MS: whole(day, 1000),
  BATON_LIVENESS_TTL_MS: whole(300_000, 1000),
  BATON_PROGRESS_TTL_MS: whole(3_600_000, 1000),
}

type Common = z.infer<z.ZodObject<typeof commonVariables>>

/** Where NATS is, and as whom to connect. */
export const natsOf = (values: Common) => ({
  servers: values.BATON_NATS_URL,
  creds: values.BATON_NATS_CREDS,
  inboxPrefix: values.BATON_NATS_INBOX_PREFIX,
})

/** The limits of streams and buckets that the environment asks for. */
export const topologyOf = (values: Common) => ({
  replicas: values.BATON_REPLICAS,
  runEvents: values.BATON_RUN_EVENTS,
  runsMaxAgeMs: values.BATON_RUNS_MAX_AGE_MS,
  runsMaxBytes: values.BATON_RUNS_MAX_BYTES,
  topicEvents: values.BATON_TOPIC_EVENTS,
  topicsMaxAgeMs: values.BATON_TOPICS_MAX_AGE_MS,
  topicsMaxBytes: values.BATON_TOPICS_MAX_BYTES,
})

export const relayVariables = {
  BATON_RELAY_ID: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,128}$/, 'must match [A-Za-z0-9._-]{1,128}')
    .refine((id) => id !== WATCHDOG, 'is what watchdogs are called')
    .optional(),
  BATON_RELAY_CAPACITY: whole(2000, 1, 100_000),
  BATON_HEALTH_PORT: whole(0, 0, 65_535),
  BATON_CLAIM_TTL_MS: whole(15_000, 1000),
  BATON_CLAIM_RENEW_MS: whole(5000, 50, LONGEST_WAIT_MS),
  BATON_BEAT_MS: whole(200, 20, 60_000),
  BATON_HEARTBEAT_WRITE_MS: whole(5000, 100, LONGEST_WAIT_MS),
  BATON_UPSTREAM_SILENCE_MS: whole(1_800_000, 100, LONGEST_WAIT_MS),
  BATON_UPSTREAM_ALLOW: list,
  BATON_UPSTREAM_GIVE_UP_MS: whole(1_800_000, 0),
  BATON_MAX_EVENT_BYTES: whole(0, 0),
}

export const edgeVariables = {
  BATON_HOST: z.string().default('127.0.0.1'),
  BATON_PORT: whole(8080, 0, 65_535),
  BATON_AUTH: z.enum(['none', 'jwt']).optional(),
  BATON_AUTH_NONE_I_KNOW: z.enum(['0', '1']).default('0'),
  BATON_JWT_ALGS: list,
  BATON_JWKS_URL: z.url().optional(),
  BATON_JWT_KEY_FILE: z.string().optional(),
  BATON_JWT_ISSUERS: list,
  BATON_JWT_AUDIENCE: z.string().optional(),
  BATON_CORS_ORIGINS: list,
  BATON_TRUSTED_PROXIES: list,
  BATON_HEARTBEAT_MS: whole(15_000, 50),
  BATON_CLIENT_BUFFER_BYTES: whole(262_144, 1024),
  BATON_OPENS_PER_CLIENT: whole(20),
  BATON_OPENS_TOTAL: whole(1000),
  BATON_MAX_CONNECTIONS: whole(10_000),
  BATON_CONNECTIONS_PER_CLIENT: whole(0).unwrap().optional(),
  BATON_PUBLISH_PER_SECOND: whole(1000),
  BATON_MAX_AGE_MS: whole(2_700_000, 100),
  BATON_TOPIC_STATE_URL: z.string().optional(),
}

export const watchdogVariables = {
  BATON_QUIET_MS: whole(60_000, 1),
  BATON_STALL_MS: whole(3_600_000, 1),
  BATON_DISCONNECT_MS: whole(300_000, 1),
  BATON_ORPHAN_MS: whole(3_600_000, 1),
  BATON_ON_ORPHAN: z.enum(['alert', 'fail']).default('alert'),
  BATON_WEBHOOK_URL: z.url().optional(),
  BATON_WEBHOOK_SECRET: z.string().optional(),
}

/** An address without secrets in it, which a request can be sent to. */
export function isEdgeUrl(text: string): boolean {
  if (!/^https?:\/\/./.test(text) || !URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username === '' && password === ''
}

/** What only the command line knows. */
export const cliVariables = {
  /** What it shows an edge that asks for a token. */
  BATON_TOKEN: z.string().optional(),
  /** The edges it asks, separated by commas. */
  BATON_EDGE_URL: list.refine((urls) => urls.every(isEdgeUrl), 'must be http URLs without a user (http://host:8080)'),
}

/** Which edges the command line asks, and as whom; what the environment does not say is left out. */
export const edgesOf = ({ BATON_EDGE_URL, BATON_TOKEN }: z.infer<z.ZodObject<typeof cliVariables>>) => ({
  ...(BATON_EDGE_URL.length === 0 ? {} : { edge: BATON_EDGE_URL }),
  ...(BATON_TOKEN === undefined ? {} : { token: BATON_TOKEN }),
})

/** Names the set-up and the tests know; no app reads them, none complains about them. */
const tooling = [
  'BATON_NATS_SERVER',
  'BATON_CHROMIUM',
  'BATON_ENVOY',
  'BATON_NGINX',
  'BATON_PYTHON',
  'BATON_FAULT_SEED',
  'BATON_SIMULATION_SEED',
]

/** Every name of every table: an app accepts its neighbours' variables in a shared environment. */
export const allVariables: ReadonlySet<string> = new Set([
  ...Object.keys(commonVariables),
  ...Object.keys(relayVariables),
  ...Object.keys(edgeVariables),
  ...Object.keys(watchdogVariables),
  ...Object.keys(cliVariables),
  ...tooling,
])

/** `BATON_SECRET_<NAME>`: an agent's key, by reference. */
export const secretPattern = /^BATON_SECRET_[A-Z0-9_]{1,64}$/
