/** Keepalives may come late by this factor before the connection is given up. */
const PATIENCE = 3
/** However often an agent sends keepalives, this much silence is allowed, or a twentieth of a shorter limit. */
const LEAST_MS = 90_000
/** Keepalives this much closer than that come together, as at the opening of a stream: they are one. */
const TOGETHER = 1 / 90

/**
 * How long one upstream may be silent before its connection is cut. Silence is normal, so it may be long; but an agent
 * that has sent keepalives is expected to go on: then it is three times the longest interval seen between two of them.
 * What was learnt holds for later connections too, until one is cut that has had no such interval: then this agent sends
 * none any more, and would be cut again and again.
 */
export class SilenceClock {
  readonly #silenceMs: number
  #longestMs: number | null = null
  #keepaliveAtMs: number | null = null
  /** This connection has had an interval between two keepalives. */
  #hasRhythm = false
  /** Null while we are not listening. */
  #heardAtMs: number | null = null

  constructor(silenceMs: number) {
    this.#silenceMs = silenceMs
  }

  get limitMs(): number {
    if (this.#longestMs === null) return this.#silenceMs
    return Math.min(this.#silenceMs, Math.max(PATIENCE * this.#longestMs, this.#leastMs))
  }

  get #leastMs(): number {
    return Math.min(LEAST_MS, this.#silenceMs / 20)
  }

  /** A connection begins. All times are of a monotonic clock. */
  open(nowMs: number): void {
    this.#keepaliveAtMs = null
    this.#hasRhythm = false
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
    const sinceMs = this.#keepaliveAtMs === null ? null : nowMs - this.#keepaliveAtMs
    if (sinceMs !== null && sinceMs < this.#leastMs * TOGETHER) return
    this.#keepaliveAtMs = nowMs
    if (sinceMs === null) return
    this.#longestMs = Math.max(this.#longestMs ?? 0, sinceMs)
    this.#hasRhythm = true
  }

  /** The connection is given up for its silence. */
  cut(): void {
    if (!this.#hasRhythm) this.#longestMs = null
  }

  /** How much more silence is allowed; 0 or less = it is over. */
  leftMs(nowMs: number): number {
    return (this.#heardAtMs ?? nowMs) + this.limitMs - nowMs
  }
}
