/** Keepalives may come late by this factor before the connection is given up. */
const PATIENCE = 3
/** However often an agent sends keepalives, this much silence is allowed, or a twentieth of a shorter limit. */
const LEAST_MS = 90_000

/**
 * How long one upstream may be silent before its connection is cut. Silence is normal, so it may be long; but an agent
 * that has sent keepalives is expected to go on: then it is three times the longest interval seen between two of them.
 * What was learnt holds for later connections too.
 */
export class SilenceClock {
  readonly #silenceMs: number
  #longestMs: number | null = null
  #keepaliveAtMs: number | null = null
  /** Null while we are not listening. */
  #heardAtMs: number | null = null

  constructor(silenceMs: number) {
    this.#silenceMs = silenceMs
  }

  get limitMs(): number {
    if (this.#longestMs === null) return this.#silenceMs
    const leastMs = Math.min(LEAST_MS, this.#silenceMs / 20)
    return Math.min(this.#silenceMs, Math.max(PATIENCE * this.#longestMs, leastMs))
  }

  /** A connection begins. All times are of a monotonic clock. */
  open(nowMs: number): void {
    this.#keepaliveAtMs = null
    this.#heardAtMs = nowMs
  }

  /** Bytes came and are worked on: until `heard`, silence is not the agent's. */
  busy(): void {
    this.#heardAtMs = null
  }

  /** From now on we listen. */
  heard(nowMs: number): void {
    this.#heardAtMs = nowMs
  }

  keepalive(nowMs: number): void {
    if (this.#keepaliveAtMs !== null) this.#longestMs = Math.max(this.#longestMs ?? 0, nowMs - this.#keepaliveAtMs)
    this.#keepaliveAtMs = nowMs
  }

  /** How much more silence is allowed; 0 or less = it is over. */
  leftMs(nowMs: number): number {
    return (this.#heardAtMs ?? nowMs) + this.limitMs - nowMs
  }
}
