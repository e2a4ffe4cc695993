import { join } from 'node:path'
import { Child } from './child.ts'
import { root } from './find-binary.ts'
import type { Emitted, JobEmission } from './history.ts'
import { commandAt, LOOPBACK, type Place } from './place.ts'

/** What an agent gives to one who comes back: what follows its Last-Event-ID, all, the newest part, or nothing. */
export type AgentMode = 'id' | 'replay' | 'window' | 'none'

export type Script = {
  readonly mode?: AgentMode
  /** Before the terminal one. */
  readonly events: number
  /** 0 = all at once. */
  readonly perSecond: number
  /** Does it emit a terminal event after them? Default true; else it stays open in silence. */
  readonly ends?: boolean
  /** The name of the terminal event; default `done`. */
  readonly terminal?: 'done' | 'failed' | 'cancelled'
  /** Least size of an event's data. */
  readonly dataBytes?: number
  /** More options of the agent (apps/agent/src/job-options.ts), as they stand in a query. */
  readonly more?: Readonly<Record<string, string>>
  /** Every how many events one has an id: 1 = all, the default; 0 = none. */
  readonly idEvery?: number
  /** After so many events nothing is emitted for so long. */
  readonly pause?: { readonly after: number; readonly ms: number }
  /** How many of the newest events the mode `window` gives. */
  readonly window?: number
  /** Ids begin at 1 again after so many events. */
  readonly idRestart?: number
  /** Says something else on every connection. */
  readonly nondeterministic?: boolean
  /** A comment every so often while nothing is emitted; default never. */
  readonly keepaliveMs?: number
}

type Shown = {
  readonly cancels: number
  readonly events: readonly Emitted[]
  readonly connections: readonly {
    readonly openedAtMs: number
    readonly closedAtMs: number | null
    readonly first: number
    readonly last: number
  }[]
}

const replays = { id: 'all', replay: 'all', window: 'window', none: 'none' } as const

/** One job of the agent process. It begins to emit when somebody first asks for its stream, and then by the clock. */
export class AgentJob {
  readonly url: string
  readonly cancelUrl: string
  readonly #base: string
  readonly #mode: AgentMode

  /** `publicBase`: where the relays find it, which may be a proxy. */
  constructor(base: string, script: Script, publicBase = base) {
    const { mode = 'id', events, perSecond, ends = true, dataBytes = 0, idEvery = 1, pause, more = {} } = script
    const { terminal = 'done', window = 150, idRestart = 0, nondeterministic = false, keepaliveMs = 0 } = script
    const query = new URLSearchParams({
      mode,
      // By default longer than the relay's wait between two connections lasts at the rates used here: a window that has
      // passed is taken for an honoured id, as the README says.
      window: String(window),
      idRestart: String(idRestart),
      nondeterministic: String(nondeterministic),
      commentMs: String(keepaliveMs),
      count: String(events),
      everyMs: String(perSecond === 0 ? 0 : 1000 / perSecond),
      terminal: ends ? terminal : 'none',
      size: String(dataBytes),
      idEvery: String(idEvery),
      pauseAfter: String(pause?.after ?? 0),
      pauseMs: String(pause?.ms ?? 0),
      ...more,
    })
    this.#base = base
    this.#mode = mode
    this.url = `${publicBase}/stream?${query.toString()}`
    this.cancelUrl = `${publicBase}/cancel`
  }

  async #show(path: string): Promise<Shown> {
    const response = await fetch(`${this.#base}${path}`)
    return (await response.json()) as Shown
  }

  /** What it has emitted up to now and whom it has served, as the job `name` of a run. */
  async emission(name = 'main'): Promise<JobEmission> {
    const { events, connections } = await this.#show('/emission')
    return {
      job: name,
      replays: replays[this.#mode],
      events,
      connections: connections.map(({ openedAtMs, closedAtMs, first, last }) => ({
        openedAtMs,
        closedAtMs,
        firstEvent: last >= first ? first - 1 : null,
        sent: Math.max(0, last - first + 1),
      })),
    }
  }

  /** How often it was asked to stop. */
  async cancels(): Promise<number> {
    return (await this.#show('')).cancels
  }

  /** What its next requests are answered before it streams again, e.g. `503x2,redirect`. */
  async answerNext(answers: string): Promise<void> {
    await fetch(`${this.#base}/answers?next=${answers}`, { method: 'POST' })
  }

  /** Cuts its connections in the middle of an event. */
  async cut(): Promise<void> {
    await fetch(`${this.#base}/cut`, { method: 'POST' })
  }
}

/** The scripted agent as a process of its own. */
export class Agents {
  readonly url: string
  readonly #child: Child

  private constructor(child: Child, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(place: Place = LOOPBACK): Promise<Agents> {
    const main = join(root, 'apps', 'agent', 'src', 'main.ts')
    const [command, args] = commandAt(place, process.execPath, [main, '--host', place.address])
    const child = new Child('agent', command, args, { PATH: process.env['PATH'] ?? '', BATON_PORT: '0' })
    const [, url = ''] = await child.said(/"url":"([^"]+)"/)
    return new Agents(child, url)
  }

  /** A job of a name of its own; nothing happens until somebody asks for its stream. */
  job(name: string, script: Script, publicUrl = this.url): AgentJob {
    return new AgentJob(`${this.url}/jobs/${name}`, script, `${publicUrl}/jobs/${name}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]()
  }
}
