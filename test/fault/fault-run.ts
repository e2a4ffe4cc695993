import { setTimeout as delay } from 'node:timers/promises'
import { check, type Allowances } from '../kit/checker.ts'
import type { Span } from '../kit/check-tails.ts'
import { eventually } from '../kit/eventually.ts'
import type { AgentJob, AgentMode, Script } from '../kit/agents.ts'
import type { RunHistory, Violation } from '../kit/history.ts'
import { clientHistory, OVERLAP_MS } from '../kit/judge.ts'
import type { App } from '../kit/process.ts'
import { LogRecorder } from '../kit/read-log.ts'
import type { SseClient } from '../kit/sse-client.ts'
import { System } from '../kit/system.ts'
import { schedule, type Fault } from './schedule.ts'

export type FaultRunOptions = {
  readonly seed: number
  readonly lengthMs: number
  readonly relays: number
  readonly edges: number
  /** How the agents resume, one run each; together with what the registration says. */
  readonly runs: readonly (Pick<Script, 'idEvery' | 'dataBytes' | 'perSecond'> & {
    readonly mode: AgentMode
    readonly resume: string
  })[]
  /** The source to run: a mutant's. */
  readonly source?: string
}

export type FaultRunResult = {
  readonly faults: readonly Fault[]
  readonly violations: readonly Violation[]
  readonly histories: readonly RunHistory[]
  /** What each process said. */
  readonly outputs: ReadonlyMap<string, string>
}

type Tailed = { readonly run: string; readonly job: AgentJob; readonly clients: readonly SseClient[] }

/** After the last fault everything is healed, and every run must come to its end within this. */
const SETTLE_MS = 60_000

/** Runs agents, relays, edges and clients while things go wrong as the seed says, and judges what each of them saw. */
export async function faultRun(options: FaultRunOptions): Promise<FaultRunResult> {
  const { seed, lengthMs, relays, edges, source } = options
  const faults = schedule(seed, { lengthMs, relays, edges, jobs: options.runs.length })
  await using system = await System.start({
    relays,
    edges,
    proxied: 'relays',
    ...(source === undefined ? {} : { source }),
  })
  await using recorder = await LogRecorder.start(system.nats.url)
  const tailed = await begin(system, options)
  const hurt = new Hurt(system, tailed)
  const startedAtMs = performance.now()
  for (const fault of faults) {
    await delay(Math.max(0, startedAtMs + fault.atMs - performance.now()))
    hurt.inflict(fault)
  }
  await delay(Math.max(0, startedAtMs + lengthMs - performance.now()))
  const dead = await hurt.healed()
  const stuck = await settle(tailed)
  const logs = await recorder.finish()
  const histories = await Promise.all(
    tailed.map(async ({ run, job, clients }): Promise<RunHistory> => {
      const named = clients.map((client, at) => clientHistory(at === 0 ? 'fast' : `slow-${at}`, client))
      return { run, jobs: [await job.emission()], log: logs.get(run) ?? [], clients: named, over: true }
    }),
  )
  await Promise.all(tailed.flatMap(({ clients }) => clients.map((client) => client.close())))
  const allowances: Allowances = { overlapMs: OVERLAP_MS, nowMs: Date.now(), frozen: hurt.frozen, ownersKnown: false }
  const violations = histories.flatMap((history) => check(history, allowances))
  return { faults, violations: [...dead, ...stuck, ...violations], histories, outputs: outputsOf(system) }
}

/** Registers the runs, each with a client that reads at once and one that is slow, at different edges. */
async function begin(system: System, options: FaultRunOptions): Promise<Tailed[]> {
  return Promise.all(
    options.runs.map(async ({ resume, ...script }, at): Promise<Tailed> => {
      const run = `${script.mode}-${resume}-${at}`
      const events = Math.round((options.lengthMs / 1000) * script.perSecond)
      const job = system.agents.job(run, { ...script, events })
      await system.register(run, { url: job.url, resume })
      const urls = system.edges.map((edge) => `${edge.url}/runs/${run}/events`)
      const turned = [...urls.slice(at % urls.length), ...urls.slice(0, at % urls.length)]
      return {
        run,
        job,
        clients: [
          system.follow(run, { urls: turned }),
          system.follow(run, { urls, stall: { everyFrames: 600, ms: 3000 } }),
        ],
      }
    }),
  )
}

/** Waits until every client has its end; a run that does not get there is a broken promise, too. */
async function settle(tailed: readonly Tailed[]): Promise<Violation[]> {
  const unfinished = () =>
    tailed.filter(({ clients }) => clients.some((client) => !client.ended && client.breach === null))
  await eventually('every client has the end', () => unfinished().length === 0, {
    withinMs: SETTLE_MS,
    everyMs: 100,
  }).catch(() => undefined)
  return unfinished().map(({ run, clients }) => ({
    invariant: 'I2',
    run,
    what: `no end ${SETTLE_MS} ms after the last fault; clients have ${clients.map((client) => client.events.length).join(' and ')} events`,
  }))
}

const outputsOf = (system: System): Map<string, string> =>
  new Map([
    ...[...system.relays, ...system.edges].map((app) => [app.name, app.output] as const),
    ['nats-server', system.nats.child.output],
  ])

/** Inflicts faults and mends them; what was asked of a process goes one after another. */
class Hurt {
  /** When a relay was paused. */
  readonly frozen: Span[] = []
  readonly #system: System
  readonly #tailed: readonly Tailed[]
  readonly #turns = new Map<string, Promise<void>>()

  constructor(system: System, tailed: readonly Tailed[]) {
    this.#system = system
    this.#tailed = tailed
  }

  inflict(fault: Fault): void {
    switch (fault.kind) {
      case 'cut-agent':
        return this.#inTurn('agents', async () => this.#tailed[fault.job]?.job.cut())
      case 'kill-nats':
        return this.#inTurn('nats', async () => {
          await this.#system.nats.kill()
          await delay(fault.downMs)
          await this.#system.nats.start()
        })
      case 'cut-off':
      case 'hold': {
        const relay = this.#system.relays[fault.number]
        if (relay !== undefined) this.#inTurn(`${relay.name} and NATS`, () => this.#part(relay, fault))
        return
      }
      case 'kill':
      case 'terminate':
      case 'pause': {
        const apps = fault.role === 'relay' ? this.#system.relays : this.#system.edges
        const app = apps[fault.number]
        if (app !== undefined)
          this.#inTurn(app.name, () => (fault.kind === 'pause' ? this.#freeze(app, fault.forMs) : stop(app, fault)))
      }
    }
  }

  async #freeze(app: App, forMs: number): Promise<void> {
    const fromMs = Date.now()
    app.child.pause()
    await delay(forMs)
    app.child.resume()
    if (this.#system.relays.includes(app)) this.frozen.push({ fromMs, toMs: Date.now() })
  }

  async #part(relay: App, { kind, forMs }: { kind: 'cut-off' | 'hold'; forMs: number }): Promise<void> {
    const proxy = this.#system.proxyOf(relay)
    if (kind === 'hold') {
      const held = proxy.holdUp()
      await delay(forMs)
      return held.flow()
    }
    proxy.refuses = true
    proxy.cut()
    await delay(forMs)
    proxy.refuses = false
  }

  #inTurn(name: string, work: () => Promise<unknown>): void {
    const before = this.#turns.get(name) ?? Promise.resolve()
    this.#turns.set(
      name,
      before.then(work).then(() => undefined),
    )
  }

  /** All faults are mended, everything is up; what does not come up is a broken promise to every run. */
  async healed(): Promise<Violation[]> {
    try {
      await Promise.all(this.#turns.values())
      await this.#system.heal()
      return []
    } catch (error) {
      const { message, cause } = error as Error
      return [{ invariant: 'I2', run: 'all', what: `${message}: ${String(cause)}` }]
    }
  }
}

async function stop(app: App, fault: { kind: 'kill' | 'terminate'; downMs: number }): Promise<void> {
  if (fault.kind === 'kill') await app.child.kill()
  else await app.child.terminate()
  await delay(fault.downMs)
  await app.restart({ wait: false })
}
