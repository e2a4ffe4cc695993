import { decideClaim, type Decision, type Seen } from '@baton/core/claim'
import type { Claim, RunStatus } from '@baton/core/records'
import { parseRunRecord, type Parsed, type RunSpec } from '@baton/core/run'
import { confirmKey, readKeyAtLeader, type Entry } from '@baton/store/bucket'
import { watchBucket, type BucketTable } from '@baton/store/bucket-table'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'

type Listeners = {
  /** A registration came, changed, or is gone (null). */
  readonly onWanted: (run: string, wanted: Parsed<RunSpec> | null) => void
  /** Somebody has a run, this relay included, or nobody has it any more (null). */
  readonly onClaim: (run: string, claim: Claim | null) => void
}

/** What a relay knows of all runs: who wants them, who has them, how they stand. Any of it may be a moment old. */
export class KnownRuns {
  readonly #nats: Nats
  readonly #wanted = new Map<string, Parsed<RunSpec>>()
  readonly #active = new Set<string>()
  /** Runs ended here whose status has not come back through the watch yet. */
  readonly #endedHere = new Set<string>()
  readonly #registrations: BucketTable
  readonly #claims: BucketTable
  readonly #statuses: BucketTable

  /** Watches from now on, until `signal` aborts. */
  constructor(nats: Nats, { onWanted, onClaim }: Listeners, signal: AbortSignal) {
    this.#nats = nats
    this.#statuses = watchBucket(nats, BUCKET.status, (entry) => this.#onStatus(entry), signal)
    this.#claims = watchBucket(nats, BUCKET.claims, (entry) => onClaim(entry.key, readClaim(entry)), signal)
    this.#registrations = watchBucket(
      nats,
      BUCKET.runs,
      (entry) => {
        this.#onRegistration(entry)
        onWanted(entry.key, this.wanted(entry.key))
      },
      signal,
    )
  }

  /** Reads everything again: afterwards, what the watches had missed is known. Throws `unavailable`. */
  async sweep(): Promise<void> {
    await Promise.all([this.#statuses.sweep(), this.#claims.sweep(), this.#registrations.sweep()])
    this.#endedHere.clear()
  }

  /** Runs that are wanted and not over: what is shared among the relays. */
  get active(): ReadonlySet<string> {
    return this.#active
  }

  /** Also those that were begun and are no longer wanted: somebody has to end them. */
  get all(): Iterable<string> {
    return new Set([...this.#active, ...this.#statuses.entries.keys()])
  }

  wanted(run: string): Parsed<RunSpec> | null {
    return this.#wanted.get(run) ?? null
  }

  status(run: string): RunStatus | null {
    return parseStatus(this.#statuses.entries.get(run))
  }

  claim(run: string): Claim | null {
    return readClaim(this.#claims.entries.get(run))
  }

  claimRevision(run: string): number {
    return this.#claims.revision(run)
  }

  claimedBy(boot: string): string[] {
    const claims = [...this.#claims.entries.values()].filter((entry) => readClaim(entry)?.boot === boot)
    return claims.map(({ key }) => key)
  }

  /** Whether to go for a run, by all that is known of it. */
  decide(run: string, holder: (boot: string) => Seen['holder']): Decision {
    if (this.#endedHere.has(run)) return 'leave'
    const claim = this.claim(run)
    return decideClaim({
      wanted: this.wanted(run),
      claim,
      status: this.status(run),
      holder: claim === null ? 'dead' : holder(claim.boot),
    })
  }

  ended(run: string): void {
    this.#endedHere.add(run)
  }

  /** Takes in a run's claim as the leader has it. Throws `unavailable`. */
  async learnClaim(run: string): Promise<void> {
    this.#claims.learn(await readKeyAtLeader(this.#nats, BUCKET.claims, run))
  }

  /**
   * A run's registration as the leader has it: that it is gone cancels the run, which cannot be taken back, and a
   * watch or a listing may come from a replica that is behind. Throws `unavailable`.
   */
  async learnWanted(run: string): Promise<Parsed<RunSpec> | null> {
    const entry = await confirmKey(this.#nats, BUCKET.runs, run)
    if (entry.value === null) return null
    this.#registrations.learn(entry)
    return parseRunRecord(run, entry.value)
  }

  #onRegistration({ key: run, value }: Entry): void {
    if (value === null) this.#wanted.delete(run)
    else this.#wanted.set(run, parseRunRecord(run, value))
    this.#activate(run)
  }

  #onStatus(entry: Entry): void {
    this.#activate(entry.key)
    if (parseStatus(entry)?.state === 'ended') this.#endedHere.delete(entry.key)
  }

  #activate(run: string): void {
    const active = this.#wanted.get(run)?.ok === true && this.status(run)?.state !== 'ended'
    if (active) this.#active.add(run)
    else this.#active.delete(run)
  }
}
