import { dueMs, emittedBy, emittedEvent, lastEvent, type AgentEvent } from './emission.ts'
import type { JobOptions } from './job-options.ts'

/** One stream the agent served. */
export type Connection = {
  readonly number: number
  readonly lastEventId: string | null
  readonly openedAtMs: number
  closedAtMs: number | null
  /** The first event it was to get, and the last one that was wholly given to its socket; 0 before any. */
  readonly first: number
  last: number
}

export type OpenStream = {
  /** Closes it in the middle of an event. */
  readonly cut: () => void
  /** Has it look at the job again. */
  readonly wake: () => void
}

/** Older ones are forgotten: a job that is cut again and again must not fill the memory. */
const MAX_CONNECTIONS = 20_000

/**
 * A job that emits by the clock, whether anybody listens or not, as the run of a real agent does. It has no timer: how
 * many events there are is a matter of when one asks.
 */
export class Job {
  readonly name: string
  readonly options: JobOptions
  readonly madeAtMs: number
  readonly connections: Connection[] = []
  readonly streams = new Set<OpenStream>()
  /** Answers to the next requests, asked for while it runs. */
  readonly next: string[] = []
  cancels = 0
  requests = 0
  #opened = 0
  #cancelledAt: number | null = null

  /** `emitted`: as if it had been made so long ago that it stands after this event. */
  constructor(name: string, options: JobOptions, emitted = 0) {
    this.name = name
    this.options = options
    this.madeAtMs = Date.now() - (emitted === 0 ? 0 : dueMs(options, emitted))
  }

  get emitted(): number {
    return this.#cancelledAt ?? emittedBy(this.options, Date.now() - this.madeAtMs)
  }

  /** Nothing will be emitted any more. */
  get over(): boolean {
    return this.#cancelledAt !== null || (this.options.terminal !== 'none' && this.emitted === lastEvent(this.options))
  }

  get state(): 'running' | 'done' | 'cancelled' {
    return this.#cancelledAt !== null ? 'cancelled' : this.over ? 'done' : 'running'
  }

  event(i: number, connection: number): AgentEvent {
    return emittedEvent(this.name, this.options, i, connection)
  }

  /** The emission ends where it stands. */
  cancel(): void {
    this.cancels++
    this.#cancelledAt ??= this.emitted
    for (const stream of this.streams) stream.wake()
  }

  open(lastEventId: string | null, first: number): Connection {
    const openedAtMs = Date.now()
    const connection = { number: ++this.#opened, lastEventId, openedAtMs, closedAtMs: null, first, last: 0 }
    this.connections.push(connection)
    if (this.connections.length > MAX_CONNECTIONS) this.connections.splice(0, MAX_CONNECTIONS / 10)
    return connection
  }

  show(): object {
    return {
      job: this.name,
      state: this.state,
      emitted: this.emitted,
      madeAtMs: this.madeAtMs,
      requests: this.requests,
      cancels: this.cancels,
      open: this.connections.filter(({ closedAtMs }) => closedAtMs === null).length,
      opened: this.#opened,
      options: this.options,
    }
  }
}
