import { BatonError } from '@baton/core/errors'
import type { Busy, Heartbeat } from '@baton/core/records'
import { hasValue, listKeys, readKey, readKeyAtLeader, readKeyTime, writeKey, type Listed } from './bucket.ts'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'
import { directGet, type DirectMessage } from './direct-get.ts'
import { BUCKET, bucketStream, keySubject } from './names.ts'
import { fromNats } from './nats-errors.ts'

/**
 * Two heartbeats that answer two questions: `liveness.<run>` says bytes arrive from an agent, `progress.<run>` says
 * the agent gets somewhere. Each expires by itself, so their absence is an answer too.
 */
export type HeartbeatKind = 'liveness' | 'progress'

const utf8 = new TextDecoder()

const key = (kind: HeartbeatKind | 'busy', run: string): string => `${kind}.${run}`

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

/** Changes with every progress heartbeat of a run, by the word of the leader; 0 = there is none. */
export async function readProgressRevision(nats: Nats, run: string): Promise<number> {
  const { value, revision } = await readKeyAtLeader(nats, BUCKET.heartbeats, key('progress', run))
  return value === null ? 0 : revision
}

/**
 * `busy.<run>`: an agent says it will be busy for `busy.forMs` from now on. Kept apart from the heartbeats, so that
 * neither progress nor a new owner forgets it, and for `ttlMs` beyond its end, for progress is counted from there.
 */
export async function writeBusy(nats: Nats, run: string, busy: Busy, ttlMs: number): Promise<void> {
  await writeKey(nats, BUCKET.heartbeats, key('busy', run), JSON.stringify(busy), { ttlMs: busy.forMs + ttlMs })
}

/** Which job is busy, and since when it is over (negative while it lasts), by the server's clock against ours. */
export async function readBusy(nats: Nats, run: string): Promise<{ job: string; overMs: number } | null> {
  const [{ value }, storedAtMs] = await Promise.all([
    readKey(nats, BUCKET.heartbeats, key('busy', run)),
    readKeyTime(nats, BUCKET.heartbeats, key('busy', run)),
  ])
  const busy = value === null ? null : parseBusy(value)
  return busy === null || storedAtMs === null ? null : { job: busy.job, overMs: Date.now() - storedAtMs - busy.forMs }
}

/** The signs of a run as they stand, their ages by the server's clock against ours; null where there is none. */
export type RunSigns = {
  readonly livenessAgeMs: number | null
  readonly progressAgeMs: number | null
  /** Since the end of the time its agent said it would be busy, negative while that lasts. */
  readonly busyOverMs: number | null
}

/** Signs of so many runs come in one answer, of which the server allows 1,024 messages. */
const RUNS_AT_ONCE = 300

/** The signs of some runs, read together: one request for hundreds of them. Throws `unavailable`. */
export async function readSigns(nats: Nats, runs: readonly string[]): Promise<Map<string, RunSigns>> {
  const parts: string[][] = []
  for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) parts.push(runs.slice(at, at + RUNS_AT_ONCE))
  const found = await Promise.all(parts.map((part) => readSignsOfFew(nats, part)))
  return new Map(found.flat())
}

async function readSignsOfFew(nats: Nats, runs: readonly string[]): Promise<[string, RunSigns][]> {
  const subject = (kind: HeartbeatKind | 'busy', run: string) => keySubject(BUCKET.heartbeats, key(kind, run))
  const subjects = runs.flatMap((run) => (['liveness', 'progress', 'busy'] as const).map((kind) => subject(kind, run)))
  const stream = bucketStream(BUCKET.heartbeats)
  const messages = await directGet(nats, stream, { multi_last: subjects }, REQUEST_TIMEOUT_MS)
  const nowMs = Date.now()
  const values = new Map(messages.filter(hasValue).map((message) => [message.subject, message]))
  const sinceMs = (message: DirectMessage) => nowMs - Date.parse(message.headers.stamped('Nats-Time-Stamp') ?? '')
  const age = (kind: HeartbeatKind, run: string): number | null => {
    const message = values.get(subject(kind, run))
    return message === undefined ? null : Math.max(0, sinceMs(message))
  }
  const busyOver = (run: string): number | null => {
    const message = values.get(subject('busy', run))
    const busy = message === undefined ? null : parseBusy(utf8.decode(message.data))
    return message === undefined || busy === null ? null : sinceMs(message) - busy.forMs
  }
  return runs.map((run) => [
    run,
    { livenessAgeMs: age('liveness', run), progressAgeMs: age('progress', run), busyOverMs: busyOver(run) },
  ])
}

function parseBusy(text: string): Busy | null {
  try {
    const value = JSON.parse(text) as Partial<Busy> | null
    return typeof value?.forMs === 'number' && Number.isFinite(value.forMs) ? (value as Busy) : null
  } catch {
    return null
  }
}

/** All heartbeats at one moment, their ages by one clock: the one that stamped them. */
export type HeartbeatTable = {
  /** Since the bucket was made: what it does not have may be no older than that. */
  readonly bucketAgeMs: number
  ageMs(kind: HeartbeatKind, run: string): number | null
  /** Changes with every write; 0 = there is none. */
  revision(kind: HeartbeatKind, run: string): number
  /** Since the end of the time its agent said it would be busy, negative while that lasts; null: none said so. */
  busyOverMs(run: string): number | null
  /** Is that the boot of a watchdog? One that holds a claim is ending the run, not tailing it. */
  isWatchdog(boot: string): boolean
}

const WITNESS_TTL_MS = 60_000
/** A watchdog writes its key several times in this. */
const WATCHDOG_GONE_MS = 30_000

/** How many watchdogs have looked lately. Throws `unavailable`. */
export async function countWatchdogs(nats: Nats): Promise<number> {
  const request = { multi_last: [keySubject(BUCKET.heartbeats, 'watchdog.*')] }
  const found = await directGet(nats, bucketStream(BUCKET.heartbeats), request, REQUEST_TIMEOUT_MS)
  const isFresh = ({ headers }: DirectMessage) =>
    Date.now() - Date.parse(headers.stamped('Nats-Time-Stamp') ?? '') < WATCHDOG_GONE_MS
  return found.filter((message) => hasValue(message) && isFresh(message)).length
}

/**
 * Reads all heartbeats. First a key of our own, `watchdog.<boot>`, is written: that it can be is the proof that the
 * others could be, and its time is "now" on the clock of the others. Throws `unavailable` and whatever a write throws.
 */
export async function readHeartbeats(nats: Nats, boot: string, signal: AbortSignal): Promise<HeartbeatTable> {
  const witness = `watchdog.${boot}`
  const at = new Date().toISOString()
  const revision = await writeKey(nats, BUCKET.heartbeats, witness, JSON.stringify({ at }), { ttlMs: WITNESS_TTL_MS })
  const [listed, madeAtMs] = await Promise.all([listKeys(nats, BUCKET.heartbeats, signal), bucketMadeAtMs(nats)])
  const table = new Map(listed.map((one) => [one.key, one]))
  const own = table.get(witness)
  if (own === undefined || own.revision < revision) {
    throw new BatonError('unavailable', 'what answered for the heartbeats is behind its leader')
  }
  const ageOf = (one: Listed): number => Math.max(0, own.storedAtMs - one.storedAtMs)
  return {
    bucketAgeMs: own.storedAtMs - madeAtMs,
    ageMs(kind, run) {
      const found = table.get(key(kind, run))
      return found === undefined ? null : ageOf(found)
    },
    isWatchdog: (one) => table.has(`watchdog.${one}`),
    revision: (kind, run) => table.get(key(kind, run))?.revision ?? 0,
    busyOverMs(run) {
      const found = table.get(key('busy', run))
      const busy = found === undefined ? null : parseBusy(found.value)
      return found === undefined || busy === null ? null : own.storedAtMs - found.storedAtMs - busy.forMs
    },
  }
}

/** When the bucket was made, by the word of its leader: without one nothing can be written. Throws `unavailable`. */
export async function bucketMadeAtMs(nats: Nats): Promise<number> {
  try {
    return Date.parse((await nats.jsm.streams.info(bucketStream(BUCKET.heartbeats))).created)
  } catch (error) {
    throw fromNats(error, 'look at the heartbeats')
  }
}
