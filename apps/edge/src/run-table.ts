import { isRunId } from '@baton/core/ids'
import { parseRunRecord } from '@baton/core/run'
import type { Log } from '@baton/service/log'
import { watchBucket, type BucketTable } from '@baton/store/bucket-table'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'
import { stateOf, type Known } from './run-view.ts'

/** What the watch has missed is known after at most so long. */
const SWEEP_MS = 30_000

/** All runs with what is wanted of them, what they are and who owns them: for listing, a moment behind. */
export class RunTable {
  readonly #runs: BucketTable
  readonly #status: BucketTable
  readonly #claims: BucketTable
  readonly #log: Log
  #swept: Promise<void> | null = null

  constructor(nats: Nats, log: Log, signal: AbortSignal) {
    const watch = (bucket: (typeof BUCKET)[keyof typeof BUCKET]) => watchBucket(nats, bucket, () => undefined, signal)
    this.#runs = watch(BUCKET.runs)
    this.#status = watch(BUCKET.status)
    this.#claims = watch(BUCKET.claims)
    this.#log = log
    // A sweep that failed has been logged; the next one makes up for it.
    const sweeper = setInterval(() => void this.#sweep().catch(() => undefined), SWEEP_MS)
    signal.addEventListener('abort', () => clearInterval(sweeper), { once: true })
  }

  /** Up to `limit` runs that fit, by id, after the id `after`. */
  async list(fits: (known: Known) => boolean, after: string, limit: number): Promise<readonly Known[]> {
    // Before the first sweep a watch that has just begun would make a full table look empty.
    await (this.#swept ?? this.#sweep())
    const ids = new Set([...this.#runs.entries.keys(), ...this.#status.entries.keys()].filter(isRunId))
    const found: Known[] = []
    for (const run of [...ids].sort()) {
      if (run <= after) continue
      const known = this.#known(run)
      if (!fits(known)) continue
      found.push(known)
      if (found.length >= limit) break
    }
    return found
  }

  #known(run: string): Known {
    const wanted = this.#runs.entries.get(run)?.value ?? null
    return {
      run,
      registration: wanted === null ? null : parseRunRecord(run, wanted),
      status: parseStatus(this.#status.entries.get(run)),
      claim: readClaim(this.#claims.entries.get(run)),
    }
  }

  #sweep(): Promise<void> {
    const sweeping = Promise.all([this.#runs.sweep(), this.#status.sweep(), this.#claims.sweep()]).then(() => undefined)
    this.#swept ??= sweeping
    return sweeping.catch((error: unknown) => {
      if (this.#swept === sweeping) this.#swept = null
      this.#log.warn({ err: error }, 'sweep.failed')
      throw error
    })
  }
}

export const fitsState = (state: string | undefined) => (known: Known) =>
  state === undefined || stateOf(known) === state

/** `k:v` pairs that a run's labels must all have. */
export const fitsLabels = (labels: readonly string[]) => (known: Known) =>
  labels.every((label) => {
    const colon = label.indexOf(':')
    const registration = known.registration
    return registration?.ok === true && registration.value.labels[label.slice(0, colon)] === label.slice(colon + 1)
  })
