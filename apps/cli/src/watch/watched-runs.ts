import { isRunId } from '@baton/core/ids'
import { Observation } from '@baton/core/observation'
import { WATCHDOG, type Claim, type RunStatus } from '@baton/core/records'
import { parseRunRecord, type Parsed, type RunSpec } from '@baton/core/run'
import { presenceOf } from '@baton/core/run-state'
import { watchBucket, type BucketTable } from '@baton/store/bucket-table'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'

/** What the buckets say of a run. */
export type Known = {
  readonly run: string
  readonly spec: Parsed<RunSpec> | null
  readonly status: RunStatus | null
  readonly claim: Claim | null
  readonly takeovers: number
}

/** What a watch has missed is known after at most so long. */
const SWEEP_MS = 10_000

type Owned = { readonly boot: string; readonly epoch: number | null; readonly takeovers: number }

/** All runs as the buckets say them, with what only who looks on can count: how often each changed hands. */
export class WatchedRuns {
  readonly #runs: BucketTable
  readonly #statuses: BucketTable
  readonly #claims: BucketTable
  readonly #owned = new Map<string, Owned>()
  readonly observation: Observation
  #sweptAtMs = Number.NEGATIVE_INFINITY

  /** `onChange` hears of everything that may change what is shown. `everyMs`: how often somebody looks. */
  constructor(nats: Nats, everyMs: number, onChange: () => void, signal: AbortSignal) {
    this.observation = new Observation(everyMs)
    this.#runs = watchBucket(nats, BUCKET.runs, onChange, signal)
    this.#statuses = watchBucket(nats, BUCKET.status, onChange, signal)
    this.#claims = watchBucket(
      nats,
      BUCKET.claims,
      ({ key, value, revision }) => {
        if (this.#count(key, readClaim({ key, value, revision }))) onChange()
      },
      signal,
    )
  }

  /** Whether another has it now, or nobody; a renewal of a claim changes nothing. */
  #count(run: string, claim: Claim | null): boolean {
    const before = this.#owned.get(run)
    if (claim === null || claim.relay === WATCHDOG) return true
    const { boot, epoch } = claim
    const isTakeover = before !== undefined && before.boot !== boot
    this.#owned.set(run, { boot, epoch, takeovers: (before?.takeovers ?? 0) + (isTakeover ? 1 : 0) })
    // The epoch comes with the first renewal.
    return before?.boot !== boot || before.epoch !== epoch
  }

  /** Reads everything again where that is due. Throws `unavailable`, `not_found`. */
  async refresh(): Promise<void> {
    const nowMs = performance.now()
    if (nowMs - this.#sweptAtMs > SWEEP_MS) {
      await Promise.all([this.#runs.sweep(), this.#statuses.sweep(), this.#claims.sweep()])
      this.#sweptAtMs = nowMs
      for (const run of this.#owned.keys()) if (this.#known(run) === null) this.#owned.delete(run)
    }
    const live = this.list().filter(({ status }) => status?.state !== 'ended')
    this.observation.looked(nowMs, new Map(live.map(({ run, status, claim }) => [run, presenceOf(status, claim)])))
  }

  /** Everything may have been missed: the next refresh reads it all. */
  distrust(): void {
    this.#sweptAtMs = Number.NEGATIVE_INFINITY
    this.observation.interrupt()
  }

  /** By id, those that have ended last. */
  list(): Known[] {
    const ids = new Set([...this.#runs.entries.keys(), ...this.#statuses.entries.keys()])
    const isOver = ({ status }: Known) => (status?.state === 'ended' ? 1 : 0)
    return [...ids]
      .filter(isRunId)
      .flatMap((run) => this.#known(run) ?? [])
      .sort((one, other) => isOver(one) - isOver(other) || (one.run < other.run ? -1 : 1))
  }

  #known(run: string): Known | null {
    const wanted = this.#runs.entries.get(run)?.value ?? null
    const status = parseStatus(this.#statuses.entries.get(run))
    if (wanted === null && status === null) return null
    const claim = readClaim(this.#claims.entries.get(run))
    const spec = wanted === null ? null : parseRunRecord(run, wanted)
    return { run, spec, status, claim, takeovers: this.#owned.get(run)?.takeovers ?? 0 }
  }
}
