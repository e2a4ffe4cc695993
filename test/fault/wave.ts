import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { STREAM } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { clientHistory } from '../kit/judge.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { isLogged, type SseClient } from '../kit/sse-client.ts'
import type { RunPlan } from './every-agent.ts'
import { Hurt, type Inflicted } from './inflict.ts'
import { judgeWave, type WaveHistory } from './judge-wave.ts'
import { NativeListener } from './native-listener.ts'
import { readNodes } from './read-nodes.ts'
import { schedule, type Scale } from './schedule.ts'
import { TopicTraffic } from './topic-traffic.ts'
import { beginRun, closeRun, follower, historiesOf, type Tailed } from './wave-clients.ts'
import type { World } from './world.ts'

export type WaveOptions = {
  /** Goes into the names of its runs and topics: no two waves share one. */
  readonly name: string
  readonly seed: number
  readonly lengthMs: number
  readonly runs: readonly RunPlan[]
  /** Clients of each run that read at once, besides a slow one, a page and the one of all runs. */
  readonly readers: number
  readonly faults: Pick<Scale, 'betweenMs' | 'longestMs' | 'spares'>
}

export type WaveResult = {
  readonly faults: readonly Inflicted[]
  readonly violations: readonly Violation[]
  readonly history: WaveHistory
  /** Events that arrived at clients, all together. */
  readonly delivered: number
  /** How late the timers of this process were at most: its clients and proxies can be no faster. */
  readonly latestMs: number
  /** How long everybody took to be at the end, once the last fault was mended. */
  readonly settledMs: number
}

/** After the last fault everything is healed, and every client must be at its end within this. */
const SETTLE_MS = 90_000

/** Runs and topics flow while things go wrong as the seed says; then everything is healed, drained and judged. */
export async function wave(world: World, options: WaveOptions): Promise<WaveResult> {
  const { name } = options
  const lateness = monitorEventLoopDelay({ resolution: 20 })
  lateness.enable()
  const servers = world.servers.map(({ url }) => url).join(',')
  const { state } = await eventually('the log is there', () => world.store.jsm.streams.info(STREAM.runs))
  await using recorder = await LogRecorder.start(servers, state.last_seq + 1)
  await using listener = await NativeListener.start(world)
  await using topics = await TopicTraffic.start(world, name, 50)
  const topicFollowers = topics.filters.map((filter, at) =>
    follower(world, `/topics/events?topic=${filter}&format=envelope`, at === 0 ? 'fetch' : 'http'),
  )
  const tailed = await Promise.all(
    options.runs.map((plan, at) => beginRun(world, runName(name, plan, at), plan, options)),
  )
  const set = follower(world, `/runs/events?from=start${tailed.map(({ run }) => `&run=${run}`).join('')}`, 'fetch')
  const hurt = new Hurt(
    world,
    tailed.flatMap(({ jobs }) => [...jobs.values()]),
  )
  try {
    await inflictAll(world, hurt, options)
    const broken = await mend(world, hurt)
    const mendedAtMs = performance.now()
    const storedTopics = await topics.end()
    const newestTopic = (of: RegExp) => storedTopics.findLast((one) => of.test(one.of))?.sequence ?? 0
    const newestTopics = [newestTopic(/./), newestTopic(/\.1$/)]
    const stuck = await settle([
      ...tailed.map((one) => () => missingOf(one)),
      () => (hasEnded(set) ? [] : ['the client of all runs has no 204']),
      ...topicFollowers.map((one, at) => () => isBehind(one, newestTopics[at] ?? 0)),
    ])
    const settledMs = performance.now() - mendedAtMs
    // What an edge had under way for somebody who had long gone may be stored, and heard, until here.
    await Promise.all(topicFollowers.map((one) => one.close()))
    const { logs, gone } = await recorder.end()
    const history: WaveHistory = {
      runs: await Promise.all(
        tailed.map(async (one) => ({
          run: one.run,
          jobs: await Promise.all([...one.jobs].map(([job, agent]) => agent.emission(job))),
          log: logs.get(one.run) ?? [],
          clients: historiesOf(one),
          over: true,
        })),
      ),
      set: clientHistory('set', set),
      topics: topicFollowers.map((one, at) => ({
        filter: topics.filters[at] ?? '',
        client: clientHistory(`topics-${at}`, one),
        upTo: newestTopics[at] ?? 0,
      })),
      stored: await topics.read(),
      published: topics.published,
      heard: listener.heard.filter(({ run }) => run.startsWith(`${name}-`)),
      nodes: await readNodes(world),
      faults: hurt.done,
    }
    const lost: Violation[] = gone === null ? [] : [{ invariant: 'I4', run: 'all', what: gone }]
    const clients = [
      ...history.runs.flatMap((run) => run.clients),
      history.set,
      ...history.topics.map(({ client }) => client),
    ]
    const delivered = clients.reduce((sum, { frames }) => sum + frames.filter(isLogged).length, 0)
    const refused = world.servers
      .flatMap((server) => server.refusals())
      .map((what): Violation => ({ invariant: 'Access', run: 'all', what }))
    const violations = [...broken, ...stuck, ...lost, ...judgeWave(history), ...refused]
    return { faults: hurt.done, violations, history, delivered, settledMs, latestMs: lateness.max / 1e6 }
  } finally {
    lateness.disable()
    await Promise.all([...tailed.map(closeRun), ...[set, ...topicFollowers].map((one) => one.close())])
  }
}

const runName = (name: string, plan: RunPlan, at: number): string =>
  `${name}-${at}-${plan.length > 1 ? 'several' : `${plan[0]?.mode}-${plan[0]?.resume}`}`

async function inflictAll(world: World, hurt: Hurt, { seed, lengthMs, runs, faults }: WaveOptions): Promise<void> {
  const startedAtMs = performance.now()
  const scale: Scale = {
    ...faults,
    lengthMs,
    relays: world.relays.length,
    edges: world.edges.length,
    nodes: world.servers.length,
    jobs: runs.flat().length,
    disk: world.disk !== null,
  }
  for (const fault of schedule(seed, scale)) {
    await delay(Math.max(0, startedAtMs + fault.atMs - performance.now()))
    hurt.inflict(fault)
  }
  await delay(Math.max(0, startedAtMs + lengthMs - performance.now()))
}

/** What cannot be mended or does not come up is a broken promise to every run. */
async function mend(world: World, hurt: Hurt): Promise<Violation[]> {
  try {
    await hurt.mended()
    await world.heal()
    return []
  } catch (error) {
    const { message, cause } = error as Error
    return [{ invariant: 'I2', run: 'all', what: `not mended: ${message}: ${String(cause)}` }]
  }
}

/** Waits until nobody misses anything; who does not get there is a broken promise, too. */
async function settle(missing: readonly (() => readonly string[])[]): Promise<Violation[]> {
  const all = () => missing.flatMap((of) => of())
  await eventually('everybody has everything', () => all().length === 0, { withinMs: SETTLE_MS, everyMs: 100 }).catch(
    () => undefined,
  )
  return all().map((what) => ({ invariant: 'I2', run: 'all', what: `${SETTLE_MS} ms after the last fault: ${what}` }))
}

const missingOf = ({ run, clients, page }: Tailed): string[] => [
  ...[...clients]
    .filter(([, client]) => !client.ended && client.breach === null)
    .map(([name, { events }]) => `client ${name} of ${run} has no end, but ${events.length} events`),
  ...(page.ended && page.closed ? [] : [`the page of ${run} has ${page.ended ? 'the end, but no 204' : 'no end'}`]),
]

const hasEnded = ({ openings, breach }: SseClient): boolean => openings.at(-1)?.status === 204 || breach !== null

const isBehind = (client: SseClient, newest: number): string[] => {
  const reached = Number(client.lastEventId?.split('-')[0] ?? 0)
  return reached >= newest || client.breach !== null
    ? []
    : [`a client of topics is at ${reached}, the newest is ${newest}`]
}
