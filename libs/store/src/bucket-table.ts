import type { Nats } from './connect.ts'
import { listKeys, watchKeys, type Entry } from './bucket.ts'
import type { Bucket } from './names.ts'

/**
 * The keys of a bucket as this process knows them: fast through a watch, certain through a sweep. It can be a moment
 * behind, so it says what to try: what cannot be taken back is confirmed by the leader first.
 */
export type BucketTable = {
  readonly entries: ReadonlyMap<string, Entry>
  /** The newest revision known of a key, also of one that is gone; 0 where nothing was ever seen. */
  revision(key: string): number
  /** Takes in what was read elsewhere, e.g. at the leader after a conflict. */
  learn(entry: Entry): void
  /** Reads everything again; after it, what the watch had missed is known. Throws `unavailable`. */
  sweep(): Promise<void>
}

/** Starts watching; `onChange` hears of every change once, with `value` null for a key that is gone. */
export function watchBucket(
  nats: Nats,
  bucket: Bucket,
  onChange: (entry: Entry) => void,
  signal: AbortSignal,
): BucketTable {
  const entries = new Map<string, Entry>()
  /** Gone keys keep their revision until the next sweep, or an older value seen late would bring them back. */
  const gone = new Map<string, number>()
  let newest = 0

  const take = (entry: Entry): void => {
    newest = Math.max(newest, entry.revision)
    const known = Math.max(entries.get(entry.key)?.revision ?? 0, gone.get(entry.key) ?? 0)
    if (entry.revision <= known) return
    if (entry.value === null) {
      entries.delete(entry.key)
      gone.set(entry.key, entry.revision)
    } else {
      gone.delete(entry.key)
      entries.set(entry.key, entry)
    }
    onChange(entry)
  }

  void watchKeys(nats, bucket, take, signal)

  return {
    entries,
    revision: (key) => entries.get(key)?.revision ?? gone.get(key) ?? 0,
    learn: take,
    async sweep() {
      const before = newest
      const listed = await listKeys(nats, bucket, signal)
      const keys = new Set(listed.map((entry) => entry.key))
      for (const [key, revision] of gone) if (revision <= before) gone.delete(key)
      for (const entry of listed) {
        const known = entries.get(entry.key)?.revision ?? 0
        // A list is as new as what its leader has: behind what was known before, it is of a bucket that was made anew, or
        // of a NATS that came back with older data.
        if (known <= before && entry.revision < known) entries.delete(entry.key)
        take(entry)
      }
      for (const [key, entry] of entries) {
        if (keys.has(key) || entry.revision > before) continue
        entries.delete(key)
        onChange({ key, value: null, revision: entry.revision })
      }
      newest = 0
      for (const { revision } of entries.values()) newest = Math.max(newest, revision)
      for (const revision of gone.values()) newest = Math.max(newest, revision)
    },
  }
}
