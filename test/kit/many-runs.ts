import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import type { AgentJob, Script } from './agents.ts'
import { eventually } from './eventually.ts'
import type { LogEntry } from './history.ts'
import { expectPromises } from './judge.ts'
import { NODES } from './nats-cluster.ts'
import { LogRecorder, readLogsOf } from './read-log.ts'
import type { SseClient } from './sse-client.ts'
import type { System } from './system.ts'

/** Relays look every half second whether one of them has too many. */
const SETTLED_MS = 1500

type Followed = { readonly run: string; readonly job: AgentJob; readonly client: SseClient }

/** Several runs that write at the same time, each with a client, over which something happens to the cluster. */
export class ManyRuns {
  readonly #system: System
  readonly #recorder: LogRecorder
  readonly followed: readonly Followed[]

  private constructor(system: System, recorder: LogRecorder, followed: readonly Followed[]) {
    this.#system = system
    this.#recorder = recorder
    this.followed = followed
  }

  /** Resolves when every client has got so many events that each of its runs is known to flow. */
  static async start(system: System, name: string, count: number, script: Script): Promise<ManyRuns> {
    const recorder = await LogRecorder.start(system.natsUrl)
    const followed = await Promise.all(
      Array.from({ length: count }, async (_, at): Promise<Followed> => {
        const run = `${name}-${at + 1}`
        const job = system.agents.job(run, script)
        await system.register(run, { url: job.url })
        return { run, job, client: system.follow(run) }
      }),
    )
    const runs = new ManyRuns(system, recorder, followed)
    await runs.flow()
    return runs
  }

  /** Waits until every client has got `more` events from now on. */
  async flow(more = 20, withinMs = 60_000): Promise<void> {
    const had = this.followed.map(({ client }) => client.events.length)
    await Promise.all(this.followed.map(async ({ client }, at) => client.untilEvents((had[at] ?? 0) + more, withinMs)))
  }

  /** Who has each run, once relays have shared them out. */
  async owners(): Promise<ReadonlyMap<string, string>> {
    let before = await this.#owners()
    return eventually('the runs are shared out', async () => {
      await delay(SETTLED_MS)
      const now = await this.#owners()
      if (isDeepStrictEqual(now, before)) return now
      before = now
      return null
    })
  }

  async #owners(): Promise<ReadonlyMap<string, string>> {
    const owners = await Promise.all(
      this.followed.map(async ({ run }) =>
        eventually(`run ${run} has an owner`, async () => (await this.#system.claim(run))?.boot),
      ),
    )
    return new Map(this.followed.map(({ run }, at) => [run, owners[at] ?? '']))
  }

  /** Every run comes to its end, every promise held, and each node has the same log. Answers the logs. */
  async finish(withinMs = 90_000): Promise<ReadonlyMap<string, readonly LogEntry[]>> {
    const { followed } = this
    await eventually('every client has the end', () => followed.every(({ client }) => client.ended || client.breach), {
      withinMs,
    })
    await Promise.all(followed.map(({ client }) => client.done))
    const logs = await this.#recorder.finish()
    for (const { run, job, client } of followed) {
      const log = logs.get(run) ?? []
      await expectPromises(this.#system, run, { jobs: [await job.emission()], clients: [client], log })
    }
    await this.#system.cluster.healthy()
    for (const node of NODES) {
      const own = await readLogsOf(this.#system.store, node)
      for (const { run } of followed) expect([node, run, eventsOf(own, run)]).toEqual([node, run, eventsOf(logs, run)])
    }
    return logs
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.followed.map(({ client }) => client.close()))
    await this.#recorder[Symbol.asyncDispose]()
  }
}

const eventsOf = (logs: ReadonlyMap<string, readonly LogEntry[]>, run: string) =>
  (logs.get(run) ?? []).flatMap((entry) => (entry.kind === 'event' ? [entry.event] : []))

/** The boots that have stored an owner record after a sequence. */
export const ownersAfter = (log: readonly LogEntry[], sequence: number): readonly string[] => [
  ...new Set(log.flatMap((entry) => (entry.kind === 'owner' && entry.sequence > sequence ? [entry.owner.boot] : []))),
]
