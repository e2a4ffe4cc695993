import type { Position } from '@baton/core/position'

/**
 * A leader of a stream that was cut off from the others still answers, for up to 20 s (nats-server, raft.go). What had
 * been stored that long ago, by the word of one that the others followed, it knows.
 */
const CUT_OFF_MS = 20_000
/** Notes closer together than this say the same; so few are kept. */
const APART_MS = 4000

/** How far a stream had come when, for whoever has only the word of one that may no longer lead it. */
export class Settled {
  readonly #notes: { readonly last: Position; readonly atMs: number }[] = []

  /** `last` is where a leader that the others follow said that the stream stands. */
  note(last: Position, nowMs: number): void {
    const newest = this.#notes.at(-1)
    if (newest !== undefined && nowMs - newest.atMs < APART_MS) return
    this.#notes.push({ last, atMs: nowMs })
    // Of those that are old enough only the newest counts.
    while (this.#notes.length > 1 && nowMs - (this.#notes[1]?.atMs ?? nowMs) >= CUT_OFF_MS) this.#notes.shift()
  }

  /** The newest position that everybody who answers has by now; null while there is none. */
  position(nowMs: number): Position | null {
    const [oldest] = this.#notes
    return oldest === undefined || nowMs - oldest.atMs < CUT_OFF_MS ? null : oldest.last
  }

  /** The stream was made anew. */
  clear(): void {
    this.#notes.length = 0
  }
}
