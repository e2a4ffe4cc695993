import { check } from '../kit/checker.ts'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { clientHistory } from '../kit/judge.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { indexOf, isLogged, type SseClient } from '../kit/sse-client.ts'
import { System, type SystemOptions } from '../kit/system.ts'

const RUN = 'provoked'

/** A system with one run that flows, and what is needed to judge it; `source` is that of a mutant. */
async function flowing(options: SystemOptions, perSecond: number, source: string | undefined) {
  // However long it takes on a busy machine, nothing is to be trimmed.
  const environment = { BATON_RUN_EVENTS: '100000' }
  const system = await System.start({ ...options, environment, ...(source === undefined ? {} : { source }) })
  const recorder = await LogRecorder.start(system.natsUrl)
  const job = system.agents.job(RUN, { events: 1_000_000, perSecond })
  await system.register(RUN, { url: job.url })
  return {
    system,
    job,
    recorder,
    async [Symbol.asyncDispose]() {
      await recorder[Symbol.asyncDispose]()
      await system[Symbol.asyncDispose]()
    },
  }
}

type Flowing = Awaited<ReturnType<typeof flowing>>

/** How many events the log has, whoever wrote them. A server that is busy may not answer in time, and is asked again. */
const stored = ({ system }: Flowing): Promise<number> =>
  eventually('the log answers', async () => (await system.log(RUN)).filter(({ kind }) => kind === 'event').length)

const untilStored = (flow: Flowing, count: number) =>
  eventually(`the log has ${count} events`, async () => (await stored(flow)) >= count, { withinMs: 30_000 })

async function judge({ recorder, job }: Flowing, clients: readonly SseClient[] = []): Promise<Violation[]> {
  // The log must reach at least as far as the clients have come.
  for (const client of clients) await client.close()
  const log = (await recorder.finish()).get(RUN) ?? []
  const named = clients.map((client, at) => clientHistory(`${at + 1}`, client))
  const history = { run: RUN, jobs: [await job.emission()], log, clients: named, over: false }
  return check(history, { overlapMs: 10_000, nowMs: Date.now(), ownersKnown: false })
}

/** An append is on its way while its relay is taken for dead and replaced; it arrives when the new owner has written. */
export async function lateAppendAfterTakeover(source?: string): Promise<Violation[]> {
  await using flow = await flowing({ relays: 2, edges: 1, proxied: 'relays' }, 100, source)
  const { system } = flow
  await untilStored(flow, 50)
  const owner = await system.owner(RUN)
  const held = system.proxyOf(owner).holdUp()
  await eventually('an append waits on its way', () => held.waiting().includes(`HPUB run.${RUN} `))
  await eventually('another relay has the run', async () => (await system.claim(RUN))?.relay !== owner.name)
  const before = await stored(flow)
  await untilStored(flow, before + 20)
  held.flow()
  // A second's worth of events later whatever was held has long arrived.
  await untilStored(flow, before + 120)
  return await judge(flow)
}

/** An append is on its way when its relay loses the connection and dials again; it arrives after what was sent anew. */
export async function lateAppendAfterReconnect(source?: string): Promise<Violation[]> {
  await using flow = await flowing({ relays: 1, edges: 1, proxied: 'relays' }, 100, source)
  const { system } = flow
  await untilStored(flow, 50)
  const owner = await system.owner(RUN)
  const held = system.proxyOf(owner).holdUp()
  await eventually('an append waits on its way', () => held.waiting().includes(`HPUB run.${RUN} `))
  held.cutClients()
  const before = await stored(flow)
  await untilStored(flow, before + 20)
  held.flow()
  await untilStored(flow, before + 120)
  return await judge(flow)
}

/**
 * An append is on its way when its relay loses the connection and dials again, and arrives just before the new owner
 * record does: only who looks at the log after that record was stored sees it.
 */
export async function appendBeforeOwnerRecord(source?: string): Promise<Violation[]> {
  await using flow = await flowing({ relays: 1, edges: 1, proxied: 'relays' }, 100, source)
  const { system } = flow
  await untilStored(flow, 50)
  const proxy = system.proxyOf(await system.owner(RUN))
  const append = proxy.holdUp()
  await eventually('an append waits on its way', () => append.waiting().includes(`HPUB run.${RUN} `))
  const record = proxy.holdAt('up', `HPUB run.${RUN}.owner `)
  append.cutClients()
  await eventually('the owner record waits', () => record.waiting().includes(`HPUB run.${RUN}.owner `))
  const before = await stored(flow)
  append.flow()
  await eventually('the append is stored', async () => (await stored(flow)) > before)
  record.flow()
  await untilStored(flow, before + 120)
  return await judge(flow)
}

/** An edge loses NATS again and again while events flow: it hears none of those stored meanwhile. */
export async function edgeCutOff(source?: string): Promise<Violation[]> {
  await using flow = await flowing({ relays: 1, edges: 1, proxied: 'edges' }, 300, source)
  const { system } = flow
  const [edge] = system.edges
  if (edge === undefined) throw new Error('an edge is needed')
  const proxy = system.proxyOf(edge)
  await using client = system.follow(RUN)
  await client.untilEvents(50)
  for (let cut = 0; cut < 5; cut++) {
    const before = await stored(flow)
    const connections = proxy.connections
    proxy.refuses = true
    proxy.cut()
    await untilStored(flow, before + 50)
    proxy.refuses = false
    await eventually('the edge is back', () => proxy.connections > connections)
    await untilStored(flow, before + 150)
  }
  const newest = await stored(flow)
  await client.until(`the event with index ${newest}`, (frame) => isLogged(frame) && indexOf(frame) >= newest)
  return await judge(flow, [client])
}

/** Many clients come to a run that flows, each from its start: each passes from the log to what is live. */
export async function manyReturns(source?: string): Promise<Violation[]> {
  await using flow = await flowing({ relays: 1, edges: 1 }, 300, source)
  const { system } = flow
  await untilStored(flow, 600)
  const clients: SseClient[] = []
  // Where a client meets what comes live is for the clock to say: several times, that something comes in between is sure.
  for (let round = 0; round < 3; round++) {
    // A new edge holds nothing in memory: whoever comes is sent through the log first.
    await system.edges[0]?.restart()
    clients.push(...Array.from({ length: 20 }, () => system.follow(RUN)))
    for (const client of clients) await client.untilEvents(900, 30_000)
  }
  return await judge(flow, clients)
}
