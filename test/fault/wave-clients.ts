import type { AgentJob } from '../kit/agents.ts'
import { EventSourceClient } from '../kit/event-source-client.ts'
import type { ClientHistory } from '../kit/history.ts'
import { clientHistory } from '../kit/judge.ts'
import { SseClient } from '../kit/sse-client.ts'
import type { RunPlan } from './every-agent.ts'
import type { World } from './world.ts'

/** More than three heartbeats of an edge: whoever hears nothing for so long knows that the line is dead. */
const IDLE_MS = 7000

/** One run of a wave, with the jobs its agents do and everybody who follows it. */
export type Tailed = {
  readonly run: string
  /** By the job's name in the run. */
  readonly jobs: ReadonlyMap<string, AgentJob>
  readonly clients: ReadonlyMap<string, SseClient>
  /** The `eventsource` package, through a gateway in front of all edges. */
  readonly page: EventSourceClient
}

/** Registers a run and sends its clients: those who read at once, a slow one, a page. */
export async function beginRun(
  world: World,
  run: string,
  plan: RunPlan,
  options: { lengthMs: number; readers: number },
): Promise<Tailed> {
  const named = plan.map(({ resume, ...script }, at) => {
    const events = Math.max(1, Math.round((options.lengthMs / 1000) * script.perSecond))
    const agent = world.agents.job(`${run}-${at}`, { ...script, events }, doorUrl(world))
    return { name: plan.length === 1 ? 'main' : `job-${at}`, agent, resume }
  })
  await register(
    world,
    run,
    named.map(({ name, agent, resume }) => ({ job: name, url: agent.url, resume })),
  )
  const urls = world.edgeUrls.map((url) => `${url}/runs/${run}/events`)
  const turned = (by: number) => [...urls.slice(by % urls.length), ...urls.slice(0, by % urls.length)]
  const clients = new Map<string, SseClient>([
    ['slow', new SseClient({ urls, idleMs: IDLE_MS, stall: { everyFrames: 600, ms: 3000 } })],
  ])
  for (let at = 0; at < options.readers; at++) {
    const via = at % 2 === 0 ? 'http' : 'fetch'
    clients.set(`${via}-${at + 1}`, new SseClient({ urls: turned(at), idleMs: IDLE_MS, via }))
  }
  const page = new EventSourceClient({
    url: `http://127.0.0.1:${world.gateway.port}/runs/${run}/events`,
    idleMs: IDLE_MS,
  })
  return { run, jobs: new Map(named.map(({ name, agent }) => [name, agent])), clients, page }
}

const doorUrl = ({ agents, agentDoor, network }: World): string => {
  const url = new URL(agents.url)
  if (network !== null) url.hostname = agentDoor.host
  url.port = String(agentDoor.port)
  return url.origin
}

/** At one edge or another: all may be hurt just now. */
async function register(world: World, run: string, jobs: readonly object[]): Promise<void> {
  const body = JSON.stringify({ run, jobs })
  for (let at = 0; ; at++) {
    const url = `${world.edgeUrls[at % world.edgeUrls.length]}/runs`
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    if (response.ok) return
    if (response.status < 500 || at > 20)
      throw new Error(`POST /runs for ${run}: ${response.status} ${await response.text()}`)
  }
}

/** A client of several runs, or of topics, at all edges in turn. */
export const follower = (world: World, path: string, via: 'http' | 'fetch'): SseClient =>
  new SseClient({ urls: world.edgeUrls.map((url) => `${url}${path}`), idleMs: IDLE_MS, via })

export const historiesOf = ({ clients, page }: Tailed): ClientHistory[] => [
  ...[...clients].map(([name, client]) => clientHistory(name, client)),
  {
    client: 'page',
    frames: page.frames,
    openings: page.openings,
    breach: null,
    sees: 'events',
    firstIndex: 1,
  },
]

export const closeRun = async ({ clients, page }: Tailed): Promise<void> => {
  await Promise.all([...clients.values(), page].map((client) => client.close()))
}
