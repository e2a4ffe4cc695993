/** Something with clients that have something new to get. */
export type Flushable = { flush(): void }

/** However long a flush takes, the next one comes this soon after it. */
const LONGEST_PAUSE_MS = 20

/**
 * Decides when what is new goes out. Idle, it goes at the end of this turn of the event loop. Busy, a flush waits as
 * long as the last one took, so that at most half of the time goes into writes, and the fewer writes carry the more
 * events: a write costs the same whatever it carries.
 */
export class Pacer {
  #marked = new Set<Flushable>()
  #scheduled = false
  #notBeforeMs = 0
  readonly #onFlush: (tookMs: number) => void

  constructor(onFlush: (tookMs: number) => void) {
    this.#onFlush = onFlush
  }

  /** Has its clients flushed soon. */
  mark(one: Flushable): void {
    this.#marked.add(one)
    if (this.#scheduled) return
    this.#scheduled = true
    const waitMs = this.#notBeforeMs - performance.now()
    if (waitMs <= 0) setImmediate(this.#flush)
    else setTimeout(this.#flush, waitMs)
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    const marked = this.#marked
    this.#marked = new Set()
    const startMs = performance.now()
    for (const one of marked) one.flush()
    const endMs = performance.now()
    this.#notBeforeMs = endMs + Math.min(endMs - startMs, LONGEST_PAUSE_MS)
    this.#onFlush(endMs - startMs)
  }
}
