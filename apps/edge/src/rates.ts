/** How many clients' rates are remembered; the one seen longest ago is forgotten first. */
const MAX_CLIENTS = 20_000

/** Fills with `perSecond` tokens a second, up to one second's worth. */
type Bucket = { tokens: number; atMs: number }

/**
 * How often something may be done: by one client, and by all. A client over its own limit takes nothing from the
 * common one, so a single client in a loop never locks the others out.
 */
export class Rates {
  readonly #perClient: number
  readonly #clients = new Map<string, Bucket>()
  readonly #total: number
  readonly #all: Bucket

  /** Per second; 0 = no limit. */
  constructor(perClient: number, total: number) {
    this.#perClient = perClient
    this.#total = total
    this.#all = { tokens: total, atMs: Number.NEGATIVE_INFINITY }
  }

  /**
   * Takes the right to do it now, or so many times at once; false when there is none left. Whoever has one left may do
   * more at once than a second allows, and waits the longer afterwards.
   */
  take(client: string, nowMs: number, times = 1): boolean {
    const own = this.#bucketOf(client, nowMs)
    if (!has(own, this.#perClient, nowMs) || !has(this.#all, this.#total, nowMs)) return false
    own.tokens -= times
    this.#all.tokens -= times
    return true
  }

  /** Has this client used up what is its own? Takes nothing. */
  isOver(client: string, nowMs: number): boolean {
    const own = this.#clients.get(client)
    return own !== undefined && !has(own, this.#perClient, nowMs)
  }

  #bucketOf(client: string, nowMs: number): Bucket {
    const bucket = this.#clients.get(client) ?? { tokens: this.#perClient, atMs: nowMs }
    // Set again, it is the youngest in the map's order.
    this.#clients.delete(client)
    this.#clients.set(client, bucket)
    if (this.#clients.size > MAX_CLIENTS) {
      const [oldest] = this.#clients.keys()
      if (oldest !== undefined) this.#clients.delete(oldest)
    }
    return bucket
  }
}

function has(bucket: Bucket, perSecond: number, nowMs: number): boolean {
  if (perSecond === 0) return true
  const gained = Math.max(0, nowMs - bucket.atMs) * (perSecond / 1000)
  bucket.tokens = Math.min(perSecond, bucket.tokens + gained)
  bucket.atMs = nowMs
  return bucket.tokens >= 1
}
