/** At most `limit` pieces of work at once; who comes later waits, first come first served. */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(limit: number) {
    this.#free = limit
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Does `work` in a slot. Rejects as `work` does. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await this.#turn(null)
    try {
      return await work()
    } finally {
      this.#giveBack()
    }
  }

  /** Waits for a slot and returns what gives it back; calling that twice is harmless. Rejects when `signal` aborts. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#giveBack()
    }
  }

  #turn(signal: AbortSignal | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.delete(go)
        reject(signal?.reason as Error)
      }
      this.#waiting.add(go)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  #giveBack(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free++
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
