import { isRunId } from '@baton/core/ids'
import { parseRunRecord } from '@baton/core/run'
import type { Log } from '@baton/service/log'
import type { Entry } from '@baton/store/bucket'
import { watchBucket, type BucketTable } from '@baton/store/bucket-table'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET, type Bucket } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'
import { stateOf, type Known } from './run-view.ts'

/** What the watch has missed is known after at most so long. */
const SWEEP_MS = 30_000

/** Hears what the buckets said of a run before and say now. */
export type OnKnown = (known: Known, before: Known) => void

/** All runs with what is wanted of them, what they are and who owns them: for listing, a moment behind. */
export class RunTable {
  readonly #tables: readonly BucketTable[]
  readonly #known = new Map<string, Known>()
  readonly #listeners = new Set<OnKnown>()
  #sweeping: Promise<void> | null = null
  /** Counts the times that the watches may have missed something. */
  #breaks = 1
  /** Which of those times everything was read after; 0 = never. */
  #wholeSince = 0

  constructor(nats: Nats, log: Log, signal: AbortSignal) {
    const watch = (bucket: Bucket, read: (entry: Entry) => Partial<Known>) =>
      watchBucket(nats, bucket, (entry) => this.#take(entry.key, read(entry)), signal)
    this.#tables = [
      watch(BUCKET.runs, ({ key, value }) => ({ registration: value === null ? null : parseRunRecord(key, value) })),
      watch(BUCKET.status, (entry) => ({ status: parseStatus(entry) })),
      watch(BUCKET.claims, (entry) => ({ claim: readClaim(entry) })),
    ]
    const sweeper = setInterval(() => {
      this.sweep().catch((error: unknown) => log.warn({ err: error }, 'sweep.failed'))
    }, SWEEP_MS)
    signal.addEventListener('abort', () => clearInterval(sweeper), { once: true })
  }

  /** Everything has been read, and nothing is known to have been missed since. */
  get whole(): boolean {
    return this.#wholeSince === this.#breaks
  }

  /** All runs that somebody wants or had begun. */
  *all(): Generator<Known, void, void> {
    for (const known of this.#known.values()) if (isAsked(known)) yield known
  }

  /** What is known of a run; nothing where it was never heard of. */
  get(run: string): Known {
    return this.#known.get(run) ?? nothing(run)
  }

  onChange(listener: OnKnown): void {
    this.#listeners.add(listener)
  }

  /** Resolves when everything has been read once. Throws `unavailable`. */
  async read(): Promise<void> {
    // Before the first sweep a watch that has just begun would make a full table look empty.
    if (this.#wholeSince === 0) await this.sweep()
  }

  /** Up to `limit` runs that fit, by id, after the id `after`. */
  async list(fits: (known: Known) => boolean, after: string, limit: number): Promise<readonly Known[]> {
    await this.read()
    const ids = [...this.all()].map(({ run }) => run).filter((run) => run > after && isRunId(run))
    const found: Known[] = []
    for (const run of ids.sort()) {
      const known = this.get(run)
      if (!fits(known)) continue
      found.push(known)
      if (found.length >= limit) break
    }
    return found
  }

  /** The watches may have missed something. */
  distrust(): void {
    this.#breaks++
  }

  /** Reads everything again, once for all who ask meanwhile. Throws `unavailable`. */
  sweep(): Promise<void> {
    const breaks = this.#breaks
    this.#sweeping ??= Promise.all(this.#tables.map((table) => table.sweep()))
      .then(() => void (this.#wholeSince = breaks))
      .finally(() => (this.#sweeping = null))
    return this.#sweeping
  }

  #take(run: string, said: Partial<Known>): void {
    const before = this.get(run)
    const known = { ...before, ...said }
    const { registration, status, claim } = known
    if (registration === null && status === null && claim === null) this.#known.delete(run)
    else this.#known.set(run, known)
    for (const listener of this.#listeners) listener(known, before)
  }
}

const nothing = (run: string): Known => ({ run, registration: null, status: null, claim: null })

const isAsked = ({ registration, status }: Known): boolean => registration !== null || status !== null

export const fitsState = (state: string | undefined) => (known: Known) =>
  state === undefined || stateOf(known) === state

/** `k:v` pairs that a run's labels must all have. */
export const fitsLabels = (labels: readonly string[]) => (known: Known) =>
  labels.every((label) => {
    const colon = label.indexOf(':')
    const registration = known.registration
    return registration?.ok === true && registration.value.labels[label.slice(0, colon)] === label.slice(colon + 1)
  })
