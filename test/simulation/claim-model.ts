import { BatonError } from '@baton/core/errors'
import type { Claim } from '@baton/core/records'

export type ClaimEntry = { readonly claim: Claim | null; readonly revision: number }

/** A run's key in KV `claims`: written by revision alone, and gone when it was not written for its time to live. */
export class ClaimModel {
  readonly #ttl: number
  readonly #anybody: boolean
  #entry: ClaimEntry = { claim: null, revision: 0 }
  #expiresAt = Number.POSITIVE_INFINITY

  /** `ttl` in steps. `anybody`: a flaw: no write is refused. */
  constructor(ttl: number, anybody: boolean) {
    this.#ttl = ttl
    this.#anybody = anybody
  }

  read(now: number): ClaimEntry {
    if (now >= this.#expiresAt) {
      this.#entry = { claim: null, revision: this.#entry.revision + 1 }
      this.#expiresAt = Number.POSITIVE_INFINITY
    }
    return this.#entry
  }

  /** Null gives it up. */
  write(claim: Claim | null, expected: number, now: number): number {
    const { revision: actual } = this.read(now)
    if (actual !== expected && !this.#anybody) throw new BatonError('conflict', `revision ${actual}`, { actual })
    const revision = actual + 1
    this.#entry = { claim, revision }
    this.#expiresAt = claim === null ? Number.POSITIVE_INFINITY : now + this.#ttl
    return revision
  }
}
