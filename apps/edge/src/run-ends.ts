import type { RunEnd } from '@baton/core/event'

/** The event that said how a run ended; `sequence` 0 where none was seen and its status has said it. */
type Ending = { readonly sequence: number; readonly said: RunEnd; readonly isKept: boolean }

/** How the runs of a set have ended, as far as they have: also those of which the log keeps nothing any more. */
export class RunEnds {
  readonly #runs: readonly string[]
  readonly #endings = new Map<string, Ending>()

  constructor(runs: readonly string[]) {
    this.#runs = runs
  }

  /** What the event at this sequence says. */
  note(run: string, sequence: number, said: RunEnd): void {
    this.#endings.set(run, { sequence, said, isKept: true })
  }

  /** What the status says of a run of which no event is known: where one was seen meanwhile, that one counts. */
  noteStatus(run: string, said: RunEnd): void {
    if ((this.#endings.get(run)?.sequence ?? 0) === 0) this.#endings.set(run, { sequence: 0, said, isKept: false })
  }

  /** Nobody can be given the event any more; what it said is still known. */
  lose(run: string): void {
    const ending = this.#endings.get(run)
    if (ending !== undefined) this.#endings.set(run, { ...ending, isKept: false })
  }

  clear(): void {
    this.#endings.clear()
  }

  /** Every run has ended; never true where there are none. */
  get areAll(): boolean {
    return this.#runs.length > 0 && this.#endings.size === this.#runs.length
  }

  /** The sequence of the last end there was; 0 where none was seen. */
  get last(): number {
    return Math.max(0, ...[...this.#endings.values()].map(({ sequence }) => sequence))
  }

  /** The last end that somebody can still be given. */
  get lastKept(): { readonly run: string; readonly sequence: number } | null {
    let last: { run: string; sequence: number } | null = null
    for (const [run, { sequence, isKept }] of this.#endings) {
      if (isKept && sequence > (last?.sequence ?? 0)) last = { run, sequence }
    }
    return last
  }

  /** What is left to be said to somebody who gets no event after this sequence: all of it where it has passed them all. */
  untoldAfter(sequence: number): readonly { readonly run: string; readonly said: RunEnd }[] {
    const isPastAll = sequence >= this.last
    return this.#runs.flatMap((run) => {
      const ending = this.#endings.get(run)
      return ending !== undefined && (isPastAll || ending.sequence > sequence) ? [{ run, said: ending.said }] : []
    })
  }
}
