import { BatonError } from '@baton/core/errors'
import type { RunEvent, StoredEvent } from '@baton/core/event'
import type { Checkpoint, OwnerRecord } from '@baton/core/records'
import type { Heard } from '@baton/core/splice'
import { judgeRefusal } from '@baton/core/settle'
import type { LogEntry } from '../kit/history.ts'

/** What a read of the log's end shows: the newest of each of its three subjects. */
export type TailRead = {
  readonly ownerSequence: number
  readonly last: StoredEvent | null
  readonly checkpoint: Checkpoint | null
}

type Options = {
  /** How many events of the run are kept; older ones nobody can read any more. */
  readonly keeps: number
  /** A flaw: appends are taken whoever sends them. */
  readonly unfenced: boolean
}

export const RUN = 'run'

/**
 * One run's part of the stream RUNS, as NATS keeps it: one order, compare-and-set on the owner record, appends fenced
 * by it, the oldest events trimmed, and a replica that may be behind. Every call is one step of the server's.
 */
export class LogModel {
  /** All that was ever stored. */
  readonly entries: LogEntry[] = []
  readonly #options: Options
  readonly #events: StoredEvent[] = []
  readonly #owners: number[] = []
  readonly #checkpoints: { readonly sequence: number; readonly checkpoint: Checkpoint }[] = []
  readonly #listeners = new Set<(event: Heard<StoredEvent>) => void>()
  #last = 0
  #replicaAt = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** The stream's last sequence. */
  get last(): number {
    return this.#last
  }

  /** How far the replica has come; reads of it show nothing newer. */
  get replicaAt(): number {
    return this.#replicaAt
  }

  /** The replica catches up, by so much at most. */
  replicate(sequences: number): void {
    this.#replicaAt = Math.min(this.#last, this.#replicaAt + sequences)
  }

  /** Another run's message: sequences of one run are not dense. */
  bump(): void {
    this.#last++
  }

  ownerSequence(upTo = this.#last): number {
    return this.#owners.findLast((sequence) => sequence <= upTo) ?? 0
  }

  assertOwner(expected: number, owner: OwnerRecord): number {
    const actual = this.ownerSequence()
    if (actual !== expected) throw new BatonError('conflict', `the owner record is ${actual}`, { actual })
    const sequence = ++this.#last
    this.#owners.push(sequence)
    this.entries.push({ kind: 'owner', sequence, owner })
    return sequence
  }

  /** Stores all or none; answers the sequence of the last. */
  append(events: readonly RunEvent[], epoch: number): number {
    this.#checkFence(epoch)
    for (const event of events) {
      const previous = this.kept().at(-1)?.sequence ?? 0
      const stored: StoredEvent = { ...event, run: RUN, sequence: ++this.#last }
      this.#events.push(stored)
      this.entries.push({ kind: 'event', sequence: stored.sequence, event: stored })
      for (const listener of this.#listeners) listener({ ...stored, previous })
    }
    return this.#last
  }

  writeCheckpoint(checkpoint: Checkpoint, epoch: number): void {
    this.#checkFence(epoch)
    this.#checkpoints.push({ sequence: ++this.#last, checkpoint })
  }

  #checkFence(epoch: number): void {
    const actual = this.ownerSequence()
    if (actual === epoch || this.#options.unfenced) return
    throw new BatonError(judgeRefusal(actual, epoch), `epoch ${actual} has replaced epoch ${epoch}`)
  }

  tail(upTo = this.#last): TailRead {
    return {
      ownerSequence: this.ownerSequence(upTo),
      last: this.kept(upTo).at(-1) ?? null,
      checkpoint: this.#checkpoints.findLast(({ sequence }) => sequence <= upTo)?.checkpoint ?? null,
    }
  }

  /** The events that can be read, oldest first. */
  kept(upTo = this.#last): readonly StoredEvent[] {
    const kept = this.#events.slice(-this.#options.keeps)
    return upTo === this.#last ? kept : kept.filter(({ sequence }) => sequence <= upTo)
  }

  /** Hears what is stored from now on. */
  listen(listener: (event: Heard<StoredEvent>) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
}
