import { setTimeout as delay } from 'node:timers/promises'
import type { AgentConnection, Emitted, JobEmission } from '../kit/history.ts'

/** What a job of an agent that is not ours does. After `count` events comes `done`. */
export type ForeignScript = {
  /** Does it go on after the Last-Event-ID? Else every connection gets all of it, at its pace, from the start. */
  readonly resumes: boolean
  readonly count: number
  readonly everyMs: number
  readonly pauseAfter: number
  readonly pauseMs: number
}

/** An agent made with somebody else's server library. */
export type ForeignAgent = AsyncDisposable & {
  /** Where a job of this name streams; nothing happens until somebody asks for it. */
  readonly url: (name: string, script: ForeignScript) => string
  /** What it says it has sent. */
  readonly emission: (name: string) => Promise<JobEmission>
}

/** The path and query that tell an agent of a job and what it is to do. */
export const streamPath = (name: string, script: ForeignScript): string =>
  `/${name}/stream?${new URLSearchParams(Object.entries(script).map(([key, value]) => [key, String(value)])).toString()}`

export const readScript = (query: URLSearchParams): ForeignScript => {
  const number = (name: string): number => Number(query.get(name))
  return {
    resumes: query.get('resumes') === 'true',
    count: number('count'),
    everyMs: number('everyMs'),
    pauseAfter: number('pauseAfter'),
    pauseMs: number('pauseMs'),
  }
}

/** A job of the agents here that are written in TypeScript. It emits by the clock from when it is first asked for. */
export class ForeignJob {
  readonly #script: ForeignScript
  readonly #said: (number: number, last: boolean) => Emitted
  readonly #beganAtMs = Date.now()
  readonly #connections: { openedAtMs: number; closedAtMs: number | null; firstEvent: number | null }[] = []

  constructor(script: ForeignScript, said: (number: number, last: boolean) => Emitted) {
    this.#script = script
    this.#said = said
  }

  /** One connection's events, each when it is due, until they are over or nobody listens. */
  async *events(lastEventId: string | null, signal: AbortSignal): AsyncGenerator<Emitted, void, void> {
    const { resumes, count } = this.#script
    const first = resumes && lastEventId !== null ? Number(lastEventId) + 1 : 1
    const beganAtMs = resumes ? this.#beganAtMs : Date.now()
    const connection = { openedAtMs: Date.now(), closedAtMs: null as number | null, firstEvent: first - 1 }
    this.#connections.push(connection)
    try {
      for (let number = first; number <= count + 1 && !signal.aborted; number++) {
        const waitMs = beganAtMs + this.#dueMs(number) - Date.now()
        if (waitMs > 0) await delay(waitMs, undefined, { signal }).catch(() => undefined)
        if (!signal.aborted) yield this.#said(number, number > count)
      }
    } finally {
      connection.closedAtMs = Date.now()
    }
  }

  #dueMs(number: number): number {
    const { everyMs, pauseAfter, pauseMs } = this.#script
    return (number - 1) * everyMs + (number > pauseAfter ? pauseMs : 0)
  }

  emission(): JobEmission {
    const { count } = this.#script
    const events = Array.from({ length: count + 1 }, (_, at) => this.#said(at + 1, at === count))
    const connections: readonly AgentConnection[] = this.#connections
    return { job: 'main', replays: 'all', events, connections }
  }
}

/** The jobs of one agent, made when they are first asked for. */
export class ForeignJobs {
  readonly #jobs = new Map<string, ForeignJob>()
  readonly #said: (number: number, last: boolean) => Emitted

  constructor(said: (number: number, last: boolean) => Emitted) {
    this.#said = said
  }

  job(name: string, script: ForeignScript): ForeignJob {
    const job = this.#jobs.get(name) ?? new ForeignJob(script, this.#said)
    this.#jobs.set(name, job)
    return job
  }

  emission(name: string): JobEmission {
    const job = this.#jobs.get(name)
    if (job === undefined) throw new Error(`nobody has asked for ${name}`)
    return job.emission()
  }
}
