import { BatonError, isCode } from '@baton/core/errors'
import { GAP, type Gap, type JobEvent, type RunEvent } from '@baton/core/event'
import { settleAppend } from '@baton/core/settle'
import type { Log } from '@baton/service/log'
import { sleep } from '@baton/service/sleep'
import { BATCH_BYTES, BATCH_MESSAGES } from '@baton/store/batch'
import { REQUEST_TIMEOUT_MS, type Nats } from '@baton/store/connect'
import { append, type Fence, type Tail } from '@baton/store/write-log'

/** Fewer than this go out one by one: a batch has a fixed price of its own (test/bench measures where they meet). */
const BATCH_FROM = 16

/** What may wait in one run's queue; then its upstream is no longer read, and TCP holds the agent back. */
export const QUEUE_BYTES = 2 ** 20
export const QUEUE_EVENTS = 4096

/** Headers cost about this much beside the data. */
const EVENT_OVERHEAD_BYTES = 512

/** What all runs of the process may hold together while NATS takes nothing. */
export type Budget = { bytes: number; readonly limitBytes: number }

export type AppenderDeps = {
  readonly nats: Nats
  readonly fence: Fence
  readonly nextIndex: number
  readonly budget: Budget
  /** A new epoch and the tail as of it: what settles an append whose outcome is unknown. */
  readonly takeOver: () => Promise<{ fence: Fence; tail: Tail }>
  readonly onStored: (events: readonly RunEvent[], sequence: number, tookMs: number) => void
  readonly onRetry: (code: string) => void
  readonly log: Log
}

type Queued = { readonly event: JobEvent; readonly bytes: number }

/**
 * The one writer of a run's log in this process. One append is in flight at any time; what queued meanwhile is the
 * next one. Never drops, never waits for readers, only for NATS.
 */
export class Appender {
  readonly #deps: AppenderDeps
  readonly #signal: AbortSignal
  #fence: Fence
  #queue: Queued[] = []
  readonly #chores: (() => Promise<void>)[] = []
  #bytes = 0
  #nextIndex: number
  /** How many of the queue go out alone, whatever waits behind them. */
  #singles = 0
  /** Events that were ever queued, and how many of them are stored. */
  #queued = 0
  #kept = 0
  #wake = Promise.withResolvers<void>()
  #room = Promise.withResolvers<void>()
  /** Why nothing is stored any more. */
  #failure: { readonly why: unknown } | null = null

  /** Appends until the signal aborts; `failed` says why it stopped before. */
  constructor(deps: AppenderDeps, signal: AbortSignal) {
    this.#deps = deps
    this.#signal = signal
    this.#fence = deps.fence
    this.#nextIndex = deps.nextIndex
    // Nobody may be waiting when the run ends; that is not a failure of its own.
    for (const waiting of [this.#wake, this.#room]) waiting.promise.catch(() => undefined)
  }

  get fence(): Fence {
    return this.#fence
  }

  /** The index of the last event stored. */
  get storedIndex(): number {
    return this.#nextIndex - 1
  }

  /** Queues an event. Resolves when there is room for another; rejects when the run is lost or stopped. */
  async push(event: JobEvent): Promise<void> {
    this.#throwIfOver()
    const bytes = Buffer.byteLength(event.data) + EVENT_OVERHEAD_BYTES
    this.#queue.push({ event, bytes })
    this.#queued++
    this.#bytes += bytes
    this.#deps.budget.bytes += bytes
    this.#wake.resolve()
    while (this.#isFull()) await this.#untilRoom()
  }

  /**
   * Does another fenced write of this run between two appends: two in flight would refuse each other on a replicated
   * stream. A failure that may pass leaves it undone; `lost` ends the run.
   */
  between(work: (fence: Fence) => Promise<void>): void {
    this.#chores.push(() => work(this.#fence))
    this.#wake.resolve()
  }

  /** Resolves when everything that is queued now is stored: a job that never pauses must not keep another waiting. */
  async flush(signal: AbortSignal): Promise<void> {
    this.#throwIfOver()
    const over = AbortSignal.any([signal, this.#signal])
    for (const all = this.#queued; this.#kept < all;) await until(this.#room.promise, over)
  }

  /** The loop. Rejects with `lost`, or with the reason of the signal. */
  async run(): Promise<never> {
    try {
      for (;;) {
        this.#signal.throwIfAborted()
        await this.#doChores()
        if (this.#queue.length === 0) {
          await until(this.#wake.promise, this.#signal)
          this.#wake = quiet()
          continue
        }
        await this.#appendNext()
      }
    } catch (error) {
      this.#discard(error)
      throw error
    }
  }

  async #doChores(): Promise<void> {
    for (let chore = this.#chores.shift(); chore !== undefined; chore = this.#chores.shift()) {
      try {
        await chore()
      } catch (error) {
        if (isCode(error, 'lost') || !(error instanceof BatonError)) throw error
        this.#deps.log.debug({ code: error.code }, 'chore.undone')
      }
    }
  }

  async #appendNext(): Promise<void> {
    const taken = this.#queue.slice(0, this.#nextSize())
    const events = taken.map(({ event }, at): RunEvent => ({
      ...event,
      index: this.#nextIndex + at,
      epoch: this.#fence.epoch,
    }))
    const startedAtMs = performance.now()
    for (let attempt = 0; ; attempt++) {
      try {
        const sequence = await append(this.#deps.nats, this.#fence, events, REQUEST_TIMEOUT_MS)
        return this.#stored(events, sequence, performance.now() - startedAtMs)
      } catch (error) {
        if (!(error instanceof BatonError)) throw error
        this.#signal.throwIfAborted()
        this.#deps.onRetry(error.code)
        // Another append of this run is still in flight, or too many batches are open: nothing was stored, ask again.
        if (error.code === 'in_flight') await sleep(Math.min(200, 5 * 2 ** Math.min(attempt, 6)), this.#signal)
        else if (error.code === 'too_large') return this.#tooLarge(events.length)
        else if (isCode(error, 'unknown_outcome', 'unavailable', 'vanished', 'full', 'conflict'))
          return this.#settle(error, taken.length)
        else throw error
      }
    }
  }

  /** How many of the queue go into the next append. */
  #nextSize(): number {
    if (this.#queue.length < BATCH_FROM || this.#singles > 0) return 1
    let bytes = 0
    let size = 0
    for (const queued of this.#queue) {
      if (size === BATCH_MESSAGES || bytes + queued.bytes > BATCH_BYTES) break
      bytes += queued.bytes
      size++
    }
    return Math.max(1, size)
  }

  /**
   * The append may be stored, in part never, or not at all. A new epoch shuts out whatever is still under way; the
   * tail read at that epoch says which.
   */
  async #settle(cause: BatonError, count: number): Promise<void> {
    const { log } = this.#deps
    const before = this.#nextIndex
    const { fence, tail } = await this.#deps.takeOver()
    const settled = settleAppend({ firstIndex: before, count, epoch: this.#fence.epoch }, tail)
    if (settled.kind !== 'stored') {
      const { index, epoch } = tail.last ?? { index: 0, epoch: 0 }
      throw new BatonError(settled.kind, `run ${fence.run}: its log ends at index ${index} of epoch ${epoch}`, {
        cause,
      })
    }
    const stored = settled.count
    log.info({ code: cause.code, epoch: fence.epoch, stored, asked: count }, 'append.settled')
    this.#fence = fence
    if (stored === 0) return
    const events = this.#queue
      .slice(0, stored)
      .map(({ event }, at): RunEvent => ({ ...event, index: before + at, epoch: tail.last?.epoch ?? fence.epoch }))
    this.#stored(events, tail.last?.sequence ?? 0, 0)
  }

  #stored(events: readonly RunEvent[], sequence: number, tookMs: number): void {
    for (const { bytes } of this.#queue.splice(0, events.length)) this.#free(bytes)
    this.#nextIndex += events.length
    this.#kept += events.length
    this.#singles = Math.max(0, this.#singles - events.length)
    this.#deps.onStored(events, sequence, tookMs)
    this.#room.resolve()
    this.#room = quiet()
  }

  /**
   * The server takes less than the cap says. Of several, the one is found by sending each alone; one alone is refused
   * for good, and that is said where it would stand.
   */
  #tooLarge(count: number): void {
    const [refused] = this.#queue
    if (count > 1 || refused === undefined) {
      this.#singles = count
      return
    }
    const { event } = refused
    const gap: Gap = { job: event.job ?? '', reason: 'too-large', lost: 1 }
    this.#queue[0] = { bytes: refused.bytes, event: { ...event, type: GAP, name: GAP, data: JSON.stringify(gap) } }
  }

  #isFull(): boolean {
    const { budget } = this.#deps
    const mine = this.#bytes > QUEUE_BYTES || this.#queue.length > QUEUE_EVENTS
    return mine || (budget.bytes > budget.limitBytes && this.#queue.length > 1)
  }

  #untilRoom(): Promise<void> {
    return until(this.#room.promise, this.#signal)
  }

  #free(bytes: number): void {
    this.#bytes -= bytes
    this.#deps.budget.bytes -= bytes
  }

  #throwIfOver(): void {
    this.#signal.throwIfAborted()
    if (this.#failure !== null) throw this.#failure.why
  }

  #discard(error: unknown): void {
    for (const { bytes } of this.#queue) this.#free(bytes)
    this.#queue = []
    this.#failure = { why: error }
    this.#room.reject(error)
  }
}

function quiet(): PromiseWithResolvers<void> {
  const waiting = Promise.withResolvers<void>()
  waiting.promise.catch(() => undefined)
  return waiting
}

/** The promise, or the signal's reason, whichever comes first; leaves no listener behind. */
async function until(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
