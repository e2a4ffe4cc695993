import { headers } from '@nats-io/nats-core'
import type { StoredMsg } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { setTimeout as delay } from 'node:timers/promises'
import type { Nats } from './connect.ts'
import type { DirectMessage } from './direct-get.ts'
import { readLedInfo } from './led.ts'
import { listLast } from './list-last.ts'
import { bucketStream, keySubject, type Bucket } from './names.ts'
import { fromNats } from './nats-errors.ts'
import { publish } from './publish.ts'

/** A key as it stands: `value` null where it is deleted, expired or was never there; revision 0 only for the last. */
export type Entry = { readonly key: string; readonly value: string | null; readonly revision: number }

const utf8 = new TextDecoder()

/** Deletes, purges and the marks the server leaves for expired values are all "gone". */
const isGone = (map: { has(name: string): boolean; get(name: string): string } | undefined): boolean =>
  map !== undefined &&
  (map.has('Nats-Marker-Reason') || map.get('KV-Operation') === 'DEL' || map.get('KV-Operation') === 'PURGE')

/** Is this a value, and not the mark of one that is gone? */
export const hasValue = ({ headers: raw }: DirectMessage): boolean =>
  raw.find('Nats-Marker-Reason') === null && !['DEL', 'PURGE'].includes(raw.find('KV-Operation') ?? '')

const fromStored = (key: string, found: StoredMsg | null): Entry =>
  found === null
    ? { key, value: null, revision: 0 }
    : { key, value: isGone(found.header) ? null : utf8.decode(found.data), revision: found.seq }

/** Reads a key from whichever replica answers: a hint, possibly old. Decisions are made by a write with a revision. */
export async function readKey(nats: Nats, bucket: Bucket, key: string): Promise<Entry> {
  try {
    const request = { last_by_subj: keySubject(bucket, key) }
    return fromStored(key, await nats.jsm.direct.getMessage(bucketStream(bucket), request))
  } catch (error) {
    throw fromNats(error, `read ${bucket}/${key}`)
  }
}

/** When the value of a key was stored, in unix ms by the server's clock; null where there is no value. */
export async function readKeyTime(nats: Nats, bucket: Bucket, key: string): Promise<number | null> {
  try {
    const found = await nats.jsm.direct.getMessage(bucketStream(bucket), { last_by_subj: keySubject(bucket, key) })
    return found === null || isGone(found.header) ? null : found.time.getTime()
  } catch (error) {
    throw fromNats(error, `read ${bucket}/${key}`)
  }
}

/** Reads a key from the leader of its bucket: what a "there is none" must be confirmed with. */
export async function readKeyAtLeader(nats: Nats, bucket: Bucket, key: string): Promise<Entry> {
  try {
    const request = { last_by_subj: keySubject(bucket, key) }
    return fromStored(key, await nats.jsm.streams.getMessage(bucketStream(bucket), request))
  } catch (error) {
    const known = fromNats(error, `read ${bucket}/${key} at the leader`)
    if (known.code === 'not_found') return { key, value: null, revision: 0 }
    throw known
  }
}

/**
 * As `readKeyAtLeader`, for who cannot take back what follows from "there is none": only a leader that the others still
 * follow is believed that. Throws `unavailable`.
 */
export async function confirmKey(nats: Nats, bucket: Bucket, key: string): Promise<Entry> {
  const entry = await readKeyAtLeader(nats, bucket, key)
  if (entry.value === null) await readLedInfo(nats, bucketStream(bucket))
  return entry
}

export type Write = {
  /** Store only where the key's revision is still this (0 = never there). Absent: unconditional. */
  readonly expected?: number
  /** Time to live of this value; the next write must carry its own, or the key stays for ever. */
  readonly ttlMs?: number
}

/** Writes a key and returns its new revision. Throws `conflict`, `in_flight`, `unknown_outcome`, `unavailable`. */
export function writeKey(nats: Nats, bucket: Bucket, key: string, value: string, write: Write = {}): Promise<number> {
  return put(nats, bucket, key, value, write, null)
}

/** Deletes a key, leaving the mark that says so. */
export function deleteKey(nats: Nats, bucket: Bucket, key: string, write: Write = {}): Promise<number> {
  return put(nats, bucket, key, '', write, 'DEL')
}

async function put(nats: Nats, bucket: Bucket, key: string, value: string, write: Write, operation: string | null) {
  const map = headers()
  if (operation !== null) map.set('KV-Operation', operation)
  if (write.expected !== undefined) map.set('Nats-Expected-Last-Subject-Sequence', String(write.expected))
  // Whole seconds are all the server knows of a TTL.
  if (write.ttlMs !== undefined) map.set('Nats-TTL', `${Math.max(1, Math.ceil(write.ttlMs / 1000))}s`)
  const { sequence } = await publish(nats, keySubject(bucket, key), value, map)
  return sequence
}

/** A key that is there, and when its value was stored, in unix ms by the clock of the bucket's leader. */
export type Listed = {
  readonly key: string
  readonly value: string
  readonly revision: number
  readonly storedAtMs: number
}

/** Every key with a value. Throws `unavailable`. */
export async function listKeys(nats: Nats, bucket: Bucket, signal: AbortSignal): Promise<Listed[]> {
  const prefix = keySubject(bucket, '').length
  const messages = await listLast(nats, bucketStream(bucket), signal)
  return messages.filter(hasValue).map(({ subject, seq, data, headers }) => ({
    key: subject.slice(prefix),
    value: utf8.decode(data),
    revision: seq,
    storedAtMs: Date.parse(headers.stamped('Nats-Time-Stamp') ?? ''),
  }))
}

/**
 * Calls `onEntry` for every key and then for every change, until the signal aborts. A watch can be blind for 90 s
 * after a server lost its consumer, so it is a hint that makes things fast; a sweep with `listKeys` makes them certain.
 */
export async function watchKeys(
  nats: Nats,
  bucket: Bucket,
  onEntry: (entry: Entry) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const kv = await new Kvm(nats.js).open(bucket)
      const watch = await kv.watch()
      const stop = () => watch.stop()
      signal.addEventListener('abort', stop, { once: true })
      // It may have been aborted while the watch was made, and nobody would hear of it.
      if (signal.aborted) stop()
      try {
        for await (const entry of watch) {
          const gone = entry.operation !== 'PUT'
          onEntry({ key: entry.key, value: gone ? null : utf8.decode(entry.value), revision: entry.revision })
        }
      } finally {
        signal.removeEventListener('abort', stop)
      }
    } catch {
      // Whatever ended it, the next one starts from the values as they are then.
    }
    await delay(500, undefined, { signal }).catch(() => undefined)
  }
}
