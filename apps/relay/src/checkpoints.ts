import { BatonError } from '@baton/core/errors'
import { advance } from '@baton/core/cursor'
import { GAP, type RunEvent } from '@baton/core/event'
import type { Checkpoint } from '@baton/core/records'
import type { Log } from '@baton/service/log'
import type { Nats } from '@baton/store/connect'
import { writeCheckpoint } from '@baton/store/write-log'
import type { Appender } from './append.ts'

/** A new owner reads at most this many events after the checkpoint. */
const CHECKPOINT_EVENTS = 1000

type Deps = {
  readonly nats: Nats
  readonly terminalTypes: readonly string[]
  /** Events that no checkpoint covers must not age out before one does, or the index would be forgotten with them. */
  readonly maxAgeMs: number
  readonly log: Log
}

/** Where every job of a run stands, folded from what is stored, and kept in the log for the next owner. */
export class Checkpoints {
  readonly #deps: Deps
  readonly #appender: Appender
  #cursors: Checkpoint
  #writtenIndex: number
  #isWriting = false
  #uncoveredSinceMs: number | null = null

  /** `cursors` as read at the take-over; `writtenIndex` of the checkpoint that the log has. */
  constructor(deps: Deps, appender: Appender, cursors: Checkpoint, writtenIndex: number) {
    this.#deps = deps
    this.#appender = appender
    this.#cursors = cursors
    this.#writtenIndex = writtenIndex
  }

  get cursors(): Checkpoint {
    return this.#cursors
  }

  /** Takes in what was stored, the last of it at `sequence`, and writes a checkpoint when one is due. */
  stored(events: readonly RunEvent[], sequence: number): void {
    // The exact sequence is known of the last one only; it is the one the fold ends with.
    for (const event of events) this.#cursors = advance(this.#cursors, { ...event, sequence }, this.#deps.terminalTypes)
    this.#uncoveredSinceMs ??= performance.now()
    const isDue = this.#cursors.index - this.#writtenIndex >= CHECKPOINT_EVENTS
    // The first event of a job is what tells a replay from news once the log has trimmed it: noted while it is there.
    if (isDue || events.some(({ ordinal, type }) => ordinal === 1 && type !== GAP)) this.#write()
  }

  writeByAge(): void {
    const since = this.#uncoveredSinceMs
    if (since !== null && performance.now() - since > this.#deps.maxAgeMs) this.#write()
  }

  /** The last one, once nothing more is appended. One that cannot be written costs the next owner some reading. */
  async writeLast(): Promise<void> {
    if (this.#cursors.index <= this.#writtenIndex) return
    await writeCheckpoint(this.#deps.nats, this.#appender.fence, this.#cursors).catch((error: unknown) => {
      if (!(error instanceof BatonError)) throw error
      this.#deps.log.debug({ code: error.code }, 'checkpoint.unwritten')
    })
  }

  #write(): void {
    if (this.#isWriting) return
    this.#isWriting = true
    this.#appender.between(async (fence) => {
      const checkpoint = this.#cursors
      try {
        await writeCheckpoint(this.#deps.nats, fence, checkpoint)
        this.#writtenIndex = checkpoint.index
        this.#uncoveredSinceMs = null
      } finally {
        this.#isWriting = false
      }
    })
  }
}
