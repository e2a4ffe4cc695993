import { isCode } from '@baton/core/errors'
import type { Claim } from '@baton/core/records'
import { deleteKey, writeKey, type Entry } from './bucket.ts'
import type { Nats } from './connect.ts'
import { BUCKET } from './names.ts'

/** The claims of runs: a key that is created, renewed and given up only by revision, and expires by itself. */

/** Null for a key that is gone and for a value nobody of ours wrote; both may be claimed over, by revision. */
export function readClaim(entry: Entry | undefined): Claim | null {
  if (entry === undefined || entry.value === null) return null
  try {
    const value = JSON.parse(entry.value) as Partial<Claim> | null
    if (typeof value?.boot !== 'string' || typeof value.relay !== 'string') return null
    return { relay: value.relay, boot: value.boot, epoch: value.epoch ?? null, since: value.since ?? '' }
  } catch {
    return null
  }
}

/**
 * Claims or renews: stores the claim where the key still has this revision. Every write carries the TTL anew, for it
 * belongs to the value, not to the key. Throws `conflict` when somebody else was first.
 */
export function writeClaim(nats: Nats, run: string, claim: Claim, revision: number, ttlMs: number): Promise<number> {
  return writeKey(nats, BUCKET.claims, run, JSON.stringify(claim), { expected: revision, ttlMs })
}

/** Gives a claim up, if it is still ours. False when it was not. */
export async function releaseClaim(nats: Nats, run: string, revision: number): Promise<boolean> {
  try {
    await deleteKey(nats, BUCKET.claims, run, { expected: revision, ttlMs: 60_000 })
    return true
  } catch (error) {
    if (isCode(error, 'conflict')) return false
    throw error
  }
}
