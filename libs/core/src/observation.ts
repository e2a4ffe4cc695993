/** A gap between two looks longer than so many sweeps is a break: this process slept, or its NATS did. */
const MISSED_SWEEPS = 5
const LEAST_BREAK_MS = 3000

/**
 * For how long we have been looking without a break, and how long each run has lacked what it should have. All of it is
 * on the local monotonic clock; what was so at the very first look has been so for who knows how long.
 */
export class Observation {
  readonly #breakMs: number
  #sinceMs: number | null = null
  #lookedAtMs: number | null = null
  #first = true
  readonly #runs = new Map<string, Lacks>()

  constructor(sweepMs: number) {
    this.#breakMs = Math.max(LEAST_BREAK_MS, MISSED_SWEEPS * sweepMs)
  }

  /** Signs could not be written, or not be seen, for a while: what we know of silence begins anew. */
  interrupt(): void {
    this.#sinceMs = null
  }

  /** A look that saw everything. Runs that are not `watched` any more are forgotten. */
  looked(nowMs: number, watched: ReadonlyMap<string, Presence>): void {
    const asleep = this.#lookedAtMs !== null && nowMs - this.#lookedAtMs > this.#breakMs
    if (this.#sinceMs === null || asleep) this.#sinceMs = nowMs
    this.#lookedAtMs = nowMs
    for (const run of this.#runs.keys()) if (!watched.has(run)) this.#runs.delete(run)
    const sinceMs = this.#first ? Number.NEGATIVE_INFINITY : nowMs
    for (const [run, { owned, connected }] of watched) {
      const before = this.#runs.get(run)
      this.#runs.set(run, {
        seenSinceMs: before?.seenSinceMs ?? sinceMs,
        ownerlessSinceMs: owned ? null : (before?.ownerlessSinceMs ?? sinceMs),
        unconnectedSinceMs: connected ? null : (before?.unconnectedSinceMs ?? sinceMs),
      })
    }
    this.#first = false
  }

  observedMs(nowMs: number): number {
    return this.#sinceMs === null ? 0 : nowMs - this.#sinceMs
  }

  /** Null for what there was before we first looked; before that, all that is known is that it may be long. */
  ages(run: string, nowMs: number): { registeredAgeMs: number | null; ownerlessMs: number; unconnectedMs: number } {
    if (this.#first) return { registeredAgeMs: null, ownerlessMs: Infinity, unconnectedMs: Infinity }
    const lacks = this.#runs.get(run)
    const age = (sinceMs: number | null | undefined): number => (sinceMs == null ? 0 : nowMs - sinceMs)
    const registeredAgeMs = age(lacks?.seenSinceMs)
    return {
      registeredAgeMs: Number.isFinite(registeredAgeMs) ? registeredAgeMs : null,
      ownerlessMs: age(lacks?.ownerlessSinceMs),
      unconnectedMs: age(lacks?.unconnectedSinceMs),
    }
  }
}

/** What a look found of a run. */
export type Presence = { readonly owned: boolean; readonly connected: boolean }

type Lacks = {
  readonly seenSinceMs: number
  readonly ownerlessSinceMs: number | null
  readonly unconnectedSinceMs: number | null
}
