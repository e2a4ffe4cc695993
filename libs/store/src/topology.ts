import { BatonError } from '@baton/core/errors'
import {
  DiscardPolicy,
  JetStreamApiError,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import { nanos } from '@nats-io/nats-core'
import type { Nats } from './connect.ts'
import { API, fromNats } from './nats-errors.ts'
import { BUCKET, STREAM, bucketStream, type Bucket } from './names.ts'

export type TopologyOptions = {
  readonly replicas: number
  readonly runEvents: number
  readonly runsMaxAgeMs: number
  readonly runsMaxBytes: number
  readonly topicEvents: number
  readonly topicsMaxAgeMs: number
  readonly topicsMaxBytes: number
}

const MiB = 2 ** 20
const DUPLICATE_WINDOW_MS = 120_000
/** How long the mark of an expired key stays: long enough that a sweep after a blind watch still sees it. */
const MARKER_TTL_MS = 60_000

/** The streams and buckets as they should be. */
export function desiredTopology(options: TopologyOptions): Partial<StreamConfig>[] {
  return [
    stream(options, {
      name: STREAM.runs,
      description: 'Baton: events of runs (run.<id>), owner records (.owner), checkpoints (.cursor)',
      subjects: ['run.*', 'run.*.owner', 'run.*.cursor'],
      republish: { src: 'run.*', dest: 'live.run.{{wildcard(1)}}' },
      max_msgs_per_subject: options.runEvents,
      max_age: nanos(options.runsMaxAgeMs),
      max_bytes: options.runsMaxBytes,
      max_consumers: 20_000,
      allow_msg_ttl: true,
      allow_rollup_hdrs: true,
      allow_atomic: true,
      duplicate_window: nanos(Math.min(DUPLICATE_WINDOW_MS, options.runsMaxAgeMs)),
    }),
    stream(options, {
      name: STREAM.topics,
      description: 'Baton: events of topics (topic.<name>)',
      subjects: ['topic.>'],
      republish: { src: 'topic.>', dest: 'live.topic.>' },
      max_msgs_per_subject: options.topicEvents,
      max_age: nanos(options.topicsMaxAgeMs),
      max_bytes: options.topicsMaxBytes,
      max_consumers: 20_000,
      allow_atomic: true,
      duplicate_window: nanos(Math.min(DUPLICATE_WINDOW_MS, options.topicsMaxAgeMs)),
    }),
    stream(options, {
      name: STREAM.alerts,
      description: 'Baton: changed verdicts on runs (alert.run.<id>)',
      subjects: ['alert.run.*'],
      max_msgs_per_subject: 1000,
      max_age: nanos(options.runsMaxAgeMs),
      max_bytes: 256 * MiB,
      duplicate_window: nanos(Math.min(DUPLICATE_WINDOW_MS, options.runsMaxAgeMs)),
    }),
    bucket(options, BUCKET.runs, 'what is wanted: one registration per run', 1024 * MiB),
    bucket(options, BUCKET.status, 'what is: written by the owner of a run alone', 1024 * MiB),
    bucket(options, BUCKET.claims, 'who tails a run; expires unless renewed', 256 * MiB),
    bucket(options, BUCKET.heartbeats, 'liveness.<run> and progress.<run>; each expires', 256 * MiB),
    bucket(options, BUCKET.tickets, 'tickets to streams, by a hash of the token; each expires', 256 * MiB),
  ]
}

function stream(options: TopologyOptions, own: Partial<StreamConfig>): Partial<StreamConfig> {
  return {
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.Old,
    num_replicas: options.replicas,
    allow_direct: true,
    metadata: { app: 'baton', schema: '1' },
    ...own,
  }
}

/** A KV bucket is a stream by convention (NATS ADR-8). History 1: an expired value must not uncover an older one. */
function bucket(options: TopologyOptions, name: Bucket, what: string, maxBytes: number): Partial<StreamConfig> {
  return stream(options, {
    name: bucketStream(name),
    description: `Baton: ${what}`,
    subjects: [`$KV.${name}.>`],
    discard: DiscardPolicy.New,
    max_msgs_per_subject: 1,
    max_bytes: maxBytes,
    allow_rollup_hdrs: true,
    deny_delete: true,
    allow_msg_ttl: true,
    subject_delete_marker_ttl: nanos(MARKER_TTL_MS),
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  })
}

export type FieldChange = {
  readonly field: string
  readonly from: unknown
  readonly to: unknown
  /** Why this change could lose stored data or cannot be made; null when it is safe. */
  readonly refused: string | null
}

export type Change =
  | { readonly kind: 'same'; readonly name: string }
  | { readonly kind: 'create'; readonly name: string; readonly config: Partial<StreamConfig> }
  | {
      readonly kind: 'update'
      readonly name: string
      readonly fields: readonly FieldChange[]
      readonly config: Partial<StreamConfig>
    }

/** Compares what is with what should be. Changes nothing. */
export async function planTopology(nats: Nats, options: TopologyOptions): Promise<readonly Change[]> {
  requireServer(nats)
  const changes: Change[] = []
  for (const wanted of desiredTopology(options)) changes.push(await compare(nats, wanted))
  return changes
}

async function compare(nats: Nats, wanted: Partial<StreamConfig>): Promise<Change> {
  const name = wanted.name ?? ''
  const found = await streamInfo(nats, name)
  if (found === null) return { kind: 'create', name, config: wanted }
  const { metadata, ...plain } = wanted
  const fields = Object.entries(plain)
    .filter(([field, to]) => !same(to, found.config[field as keyof StreamConfig]))
    .map(([field, to]): FieldChange => {
      const from = found.config[field as keyof StreamConfig]
      return { field, from, to, refused: whyRefused(field, from, to, found) }
    })
  if (fields.length === 0) return { kind: 'same', name }
  // A raised cap makes "fewer than the cap are kept" prove nothing about the time before it: readers need to know since when.
  const raised = fields.some(({ field, from, to }) => field === 'max_msgs_per_subject' && Number(to) > Number(from))
  const note = raised ? { raised_at: String(found.state.last_seq) } : {}
  const config = { ...found.config, ...plain, metadata: { ...found.config.metadata, ...metadata, ...note } }
  return { kind: 'update', name, fields, config }
}

const LIMITS = new Set(['max_msgs_per_subject', 'max_age', 'max_bytes'])

function whyRefused(field: string, from: unknown, to: unknown, found: StreamInfo): string | null {
  if (field === 'storage' || field === 'retention' || field === 'max_consumers')
    return 'cannot be changed on an existing stream'
  if (field === 'subjects' && Array.isArray(from) && Array.isArray(to) && from.some((one) => !to.includes(one))) {
    return 'a subject would leave the stream'
  }
  if (field === 'num_replicas' && Number(to) < Number(from)) {
    return 'what was acknowledged would no longer survive the loss of a node'
  }
  if (!LIMITS.has(field) || found.state.messages === 0) return null
  const [before, after] = [Number(from), Number(to)]
  const unlimited = (limit: number) => limit <= 0
  const lower = !unlimited(after) && (unlimited(before) || after < before)
  if (!lower) return null
  if (field === 'max_bytes' && found.state.bytes <= after) return null
  return 'a lower limit deletes stored messages at once'
}

const same = (wanted: unknown, found: unknown): boolean =>
  typeof wanted === 'object' && wanted !== null
    ? typeof found === 'object' &&
      found !== null &&
      Object.entries(wanted).every(([key, value]) => same(value, (found as Record<string, unknown>)[key]))
    : wanted === found || (wanted === false && found === undefined)

/**
 * Carries a plan out. Idempotent; several processes may do it at once. Refuses the whole plan when a change in it
 * would lose data, unless `allowLoss`.
 */
export async function applyTopology(
  nats: Nats,
  changes: readonly Change[],
  options: { allowLoss?: boolean } = {},
): Promise<void> {
  const refused = changes.flatMap((change) =>
    change.kind === 'update'
      ? change.fields
          .filter((one) => one.refused !== null)
          .map((one) => `${change.name}.${one.field} ${String(one.from)} → ${String(one.to)}: ${one.refused}`)
      : [],
  )
  if (refused.length > 0 && options.allowLoss !== true) throw new BatonError('invalid', refused.join('; '))
  for (const change of changes) {
    try {
      if (change.kind === 'create') await nats.jsm.streams.add(change.config as StreamConfig & { name: string })
      if (change.kind === 'update') await nats.jsm.streams.update(change.name, change.config)
    } catch (error) {
      const known = fromNats(error, `set up ${change.name}`, 'write')
      // Somebody else made it between our look and our call.
      if ((known.cause as { err_code?: number; code?: number } | undefined)?.code === API.nameInUse) continue
      throw known
    }
  }
}

/**
 * What an app does at its start: makes what is missing and leaves what exists as it is. The differences it leaves
 * are returned, to be logged; `baton setup` applies them.
 */
export async function ensureTopology(nats: Nats, options: TopologyOptions): Promise<readonly Change[]> {
  const changes = await planTopology(nats, options)
  await applyTopology(
    nats,
    changes.filter((change) => change.kind === 'create'),
  )
  return changes
}

async function streamInfo(nats: Nats, name: string): Promise<StreamInfo | null> {
  try {
    return await nats.jsm.streams.info(name)
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === API.streamNotFound) return null
    throw fromNats(error, `look at stream ${name}`)
  }
}

/** Per-message TTL with markers, fences on another subject and atomic batches came with 2.12. */
function requireServer({ nc }: Nats): void {
  // While it is away the client does not know any more who it was.
  if (nc.info === undefined) throw new BatonError('unavailable', 'look at the streams: NATS is away')
  const { version } = nc.info
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 2 || (major === 2 && minor < 12)) {
    throw new BatonError('unsupported', `nats-server ${version} is too old: Baton needs 2.12 or newer`)
  }
  if (nc.info.jetstream !== true) throw new BatonError('unsupported', 'this nats-server has JetStream turned off')
}
