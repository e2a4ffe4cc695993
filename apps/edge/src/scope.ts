import type { Position } from '@baton/core/position'
import type { Heard, Order } from '@baton/core/splice'
import type { Entry } from './entry.ts'
import type { Marks } from './ring.ts'

/** What a feed hears of its scope as it happens. Anything may be missing; the order of the scope tells. */
export type Listening = {
  /** Resolves when everything stored from then on is heard. Rejects with `unavailable`. */
  readonly ready: Promise<void>
  /** Hears what comes after this position, whatever has become of what was heard until now. */
  from(position: Position): void
  close(): void
}

/** Where a scope stands in the log. */
export type Standing<T> = {
  /** Who follows from now on starts after this. */
  readonly last: Position
  /** The newest event; null when none is kept. */
  readonly head: T | null
  /** The oldest event kept. */
  readonly first: Position | null
}

/** What a look at the log says about what was heard. */
export type Tail =
  /** Nothing was missed. `passed`: nothing of this scope was stored up to there. */
  | { readonly kind: 'same'; readonly passed: Position | null }
  | { readonly kind: 'more'; readonly reached: (last: Position) => boolean }
  /** The stream was made anew: sequences mean other events now. */
  | { readonly kind: 'anew' }

/**
 * Where somebody goes on behind a loss, and what is said. `until`: something may be missing as far as that sequence, so
 * whoever stands before it and was not told cannot go on from there.
 */
export type Mending = { readonly place: Position; readonly block: string; readonly until: number }

export type Event = { readonly sequence: number }

/** What clients follow and feeds share: one run, one topic, or a set of runs or of topics. */
export type Scope<T extends Event> = {
  /** Equal for those who may share a feed. */
  readonly key: string
  /** For people. */
  readonly name: string
  /** The runs that it follows; none where it follows topics. */
  readonly runs: readonly string[]
  readonly marks: Marks
  readonly order: Order<T>
  listen(hear: (event: Heard<T>) => void): Listening
  stand(): Promise<Standing<T>>
  /** The newest event, by the word of the log's leader. Throws `unavailable`. */
  head(): Promise<T | null>
  /** The position of the oldest event kept. */
  first(): Promise<Position | null>
  /**
   * The events after a position, page by page, as far as the log goes; null: from the oldest. `told`: whoever reads this
   * knows that something may be gone, and is owed only what follows the first that it gets.
   */
  pages(after: Position | null, told: boolean, signal: AbortSignal): AsyncGenerator<readonly T[], void, void>
  /** Was nothing stored between two positions? False where that cannot be known. */
  isQuiet(from: Position, to: Position): Promise<boolean>
  /**
   * Where somebody goes on who has everything up to `last`, where nothing of what came up to `to` is kept any more, by the
   * word of the log's leader; null where it may be. Throws `unavailable`.
   */
  gone(last: Position, to: Position): Promise<Mending | null>
  /** The position right before an event. */
  before(event: T): Promise<Position>
  /** Where somebody goes on who has everything up to `last`, while the log goes on with `event`; and what is said. */
  mend(last: Position, event: T): Promise<Mending>
  /** Asks the log what came after `last`. Throws `unavailable`. */
  look(last: Position): Promise<Tail>
  /** Where it stands in a stream made anew, and what is said to who has everything of the old one up to `last`. */
  anew(last: Position): Promise<{ place: Position; block: string; tail: Tail }>
  entry(event: T): Entry
  /** Nothing will come after this event. */
  isOver(head: T | null): boolean
}
