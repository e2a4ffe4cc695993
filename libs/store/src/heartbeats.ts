import type { Heartbeat } from '@baton/core/records'
import { readKey, readKeyTime, writeKey } from './bucket.ts'
import type { Nats } from './connect.ts'
import { BUCKET } from './names.ts'

/**
 * Two heartbeats that answer two questions: `liveness.<run>` says bytes arrive from an agent, `progress.<run>` says
 * the agent gets somewhere. Each expires by itself, so their absence is an answer too.
 */
export type HeartbeatKind = 'liveness' | 'progress'

const key = (kind: HeartbeatKind, run: string): string => `${kind}.${run}`

export async function writeHeartbeat(
  nats: Nats,
  kind: HeartbeatKind,
  run: string,
  beat: Heartbeat,
  ttlMs: number,
): Promise<void> {
  await writeKey(nats, BUCKET.heartbeats, key(kind, run), JSON.stringify(beat), { ttlMs })
}

/** Null where it has expired or was never written. */
export async function readHeartbeat(nats: Nats, kind: HeartbeatKind, run: string): Promise<Heartbeat | null> {
  const entry = await readKey(nats, BUCKET.heartbeats, key(kind, run))
  return entry.value === null ? null : (JSON.parse(entry.value) as Heartbeat)
}

/** How long ago it was written, by the server's clock against ours; null where it has expired or was never written. */
export async function readHeartbeatAgeMs(nats: Nats, kind: HeartbeatKind, run: string): Promise<number | null> {
  const storedAtMs = await readKeyTime(nats, BUCKET.heartbeats, key(kind, run))
  return storedAtMs === null ? null : Math.max(0, Date.now() - storedAtMs)
}
