import { isRunId } from '@baton/core/ids'
import type { Claim, RunStatus } from '@baton/core/records'
import { parseRunRecord, type RunSpec } from '@baton/core/run'
import { listKeys } from '@baton/store/bucket'
import { watchBucket, type BucketTable } from '@baton/store/bucket-table'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'

/** A run that somebody wants or had begun, as the buckets show it. */
export type Watched = {
  readonly run: string
  /** Null when nobody wants it any more, or what is wanted makes no sense. */
  readonly spec: RunSpec | null
  readonly status: RunStatus | null
  readonly claim: Claim | null
}

/**
 * The runs there are. What is wanted and what is changes seldom and is kept for long, so it is watched; claims are
 * renewed all the time and are as many as there are live runs, so they are read when they are needed.
 */
export class WatchedRuns {
  readonly #nats: Nats
  readonly #signal: AbortSignal
  readonly #runs: BucketTable
  readonly #statuses: BucketTable

  constructor(nats: Nats, signal: AbortSignal) {
    this.#nats = nats
    this.#signal = signal
    this.#runs = watchBucket(nats, BUCKET.runs, () => undefined, signal)
    this.#statuses = watchBucket(nats, BUCKET.status, () => undefined, signal)
  }

  /** Reads everything again: what the watches have missed is known after it. */
  async sweep(): Promise<void> {
    await Promise.all([this.#runs.sweep(), this.#statuses.sweep()])
  }

  /** Every run with a registration that makes sense, or a status. */
  async list(): Promise<Watched[]> {
    const claims = new Map((await listKeys(this.#nats, BUCKET.claims, this.#signal)).map((entry) => [entry.key, entry]))
    const ids = new Set([...this.#runs.entries.keys(), ...this.#statuses.entries.keys()])
    const found: Watched[] = []
    for (const run of ids) {
      if (!isRunId(run)) continue
      const text = this.#runs.entries.get(run)?.value ?? null
      const wanted = text === null ? null : parseRunRecord(run, text)
      const spec = wanted?.ok === true ? wanted.value : null
      const status = parseStatus(this.#statuses.entries.get(run))
      if (spec !== null || status !== null) found.push({ run, spec, status, claim: readClaim(claims.get(run)) })
    }
    return found
  }
}
