import { isCode } from '@baton/core/errors'

/**
 * A run that failed here is tried again after this, doubled each time. What passes by itself, as an election of NATS
 * does, is asked again soon: somebody waits for the run.
 */
const RETRY_MS = { least: 1000, most: 60_000 }
const PASSING_RETRY_MS = { least: 250, most: 1000 }
/** A relay that could not reach a run's agents lets the others go first by this much. */
const DECLINED_DELAY_MS = 3000
const DECLINED_KEPT = 10_000

type Wait = { readonly timer: NodeJS.Timeout; readonly for: 'turn' | 'backoff' | 'answer' }

type Failures = { readonly count: number; readonly isPassing: boolean }

/** The runs a relay is about to go for, each once, each after a wait: what went wrong before makes it longer. */
export class ClaimQueue {
  readonly #waits = new Map<string, Wait>()
  readonly #failures = new Map<string, Failures>()
  readonly #declined = new Set<string>()

  has(run: string): boolean {
    return this.#waits.has(run)
  }

  /** Whether a run is about to be gone for that is not merely backing off. */
  get isClaiming(): boolean {
    return [...this.#waits.values()].some((wait) => wait.for !== 'backoff')
  }

  /** Goes for `run` once its turn has come, its backoff is over, and others had the chance it owes them. */
  add(run: string, turnMs: number, isAlone: boolean, go: () => void): void {
    const backoffMs = this.#backoffMs(run)
    const declinedMs = this.#declined.has(run) && !isAlone ? DECLINED_DELAY_MS : 0
    this.#wait(run, turnMs + backoffMs + declinedMs, backoffMs > 0 ? 'backoff' : 'turn', go)
  }

  /** Looks at `run` again after `waitMs`, when more is known of its owner. */
  askAgain(run: string, waitMs: number, look: () => void): void {
    this.#wait(run, waitMs, 'answer', look)
  }

  /** What was asked of a run's owner is known: nothing is left to wait for. */
  answered(run: string): void {
    if (this.#waits.get(run)?.for === 'answer') this.drop(run)
  }

  drop(run: string): void {
    clearTimeout(this.#waits.get(run)?.timer)
    this.#waits.delete(run)
  }

  clear(): void {
    for (const run of this.#waits.keys()) this.drop(run)
  }

  /** Notes that a run failed here; returns whether it is of a kind that passes by itself. */
  failed(run: string, error: unknown): boolean {
    const isPassing = isCode(error, 'unavailable', 'unknown_outcome', 'conflict', 'in_flight')
    this.#failures.set(run, { count: (this.#failures.get(run)?.count ?? -1) + 1, isPassing })
    return isPassing
  }

  succeeded(run: string): void {
    this.#failures.delete(run)
  }

  /** Forgets the failures of every run that is not in `active`. */
  keepOnly(active: ReadonlySet<string>): void {
    for (const run of this.#failures.keys()) if (!active.has(run)) this.#failures.delete(run)
  }

  /** This relay does not reach the agents of a run. False where that was said before: each relay declines once. */
  decline(run: string): boolean {
    if (this.#declined.has(run)) return false
    if (this.#declined.size >= DECLINED_KEPT) this.#declined.clear()
    this.#declined.add(run)
    return true
  }

  #wait(run: string, waitMs: number, reason: Wait['for'], then: () => void): void {
    const timer = setTimeout(() => {
      this.#waits.delete(run)
      then()
    }, waitMs)
    this.#waits.set(run, { timer, for: reason })
  }

  #backoffMs(run: string): number {
    const failures = this.#failures.get(run)
    if (failures === undefined) return 0
    const { least, most } = failures.isPassing ? PASSING_RETRY_MS : RETRY_MS
    return Math.min(most, least * 2 ** Math.min(10, failures.count)) * (0.75 + Math.random() / 2)
  }
}
