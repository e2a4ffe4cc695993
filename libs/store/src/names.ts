/** Every stream, bucket and subject, built here and nowhere else. `nats/README.md` shows them as a table. */
export const STREAM = { runs: 'RUNS', topics: 'TOPICS', alerts: 'ALERTS' } as const
export const BUCKET = {
  runs: 'runs',
  status: 'status',
  claims: 'claims',
  heartbeats: 'heartbeats',
  tickets: 'tickets',
} as const
export type Bucket = (typeof BUCKET)[keyof typeof BUCKET]

export const runSubject = (run: string): string => `run.${run}`
export const ownerSubject = (run: string): string => `run.${run}.owner`
export const cursorSubject = (run: string): string => `run.${run}.cursor`
/** Where the stored events of a run are republished, over core NATS: some may be missing, the last ones may come again. */
export const liveRunSubject = (run: string): string => `live.run.${run}`
/** The changed verdicts on a run. */
export const alertSubject = (run: string): string => `alert.run.${run}`
/** The subject of a topic, or of a filter of topics. */
export const topicSubject = (topic: string): string => `topic.${topic}`
export const liveTopicSubject = (topic: string): string => `live.topic.${topic}`
/** The subject under which a bucket keeps a key; keys are run ids, so no encoding is needed. */
export const keySubject = (bucket: Bucket, key: string): string => `$KV.${bucket}.${key}`
export const bucketStream = (bucket: Bucket): string => `KV_${bucket}`

export const BEAT = 'relay.beat.*'
export const beatSubject = (boot: string): string => `relay.beat.${boot}`
export const pingSubject = (boot: string): string => `relay.ping.${boot}`
export const releaseSubject = (boot: string): string => `relay.release.${boot}`
/** A request that a relay hand all its runs over and end, as at SIGTERM. */
export const drainSubject = (boot: string): string => `relay.drain.${boot}`
export const RELEASED = 'relay.released.*'
export const releasedSubject = (run: string): string => `relay.released.${run}`
/** What the server says the moment a socket closes, imported from the system account (nats/README.md). */
export const DISCONNECT = 'nats.disconnect'
/** Prefix of a relay's connection name: a disconnect notice carries the name, and so the boot. */
export const RELAY_CONNECTION = 'baton-relay-'
/** Prefix of a watchdog's, for the same reason: it may hold claims. */
export const WATCHDOG_CONNECTION = 'baton-watchdog-'
