import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { GAP } from '@baton/core/event'
import { startBetterSseAgent } from '../foreign/better-sse.ts'
import { startFastApiAgent } from '../foreign/fastapi.ts'
import type { ForeignAgent, ForeignScript } from '../foreign/foreign-job.ts'
import { startHonoAgent } from '../foreign/hono.ts'
import { root } from '../kit/find-binary.ts'
import { expectPromises } from '../kit/judge.ts'
import { pythonWith } from '../kit/python.ts'
import type { SseClient } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

const python = await pythonWith(join(root, 'test', 'foreign', 'requirements.txt'))

const test = testWithSystem({ relays: 2, edges: 1 })

/** Long enough a pause for a library to send its keepalives. */
const script = { count: 300, everyMs: 10, pauseAfter: 120, pauseMs: 3000 }

/** Kills the relay of a run twice, once while the agent talks and once while it is silent, and waits for the end. */
async function killTwice(system: System, run: string, client: SseClient): Promise<void> {
  for (const events of [60, 120]) {
    await client.untilEvents(events)
    const owner = await system.owner(run)
    await owner.child.kill()
    await owner.restart({ wait: false })
  }
  await client.done
}

async function relayed(system: System, run: string, agent: ForeignAgent, how: Partial<ForeignScript>, resume?: string) {
  const url = agent.url(run, { resumes: true, ...script, ...how })
  await system.register(run, { url, ...(resume === undefined ? {} : { resume }) })
  const client = system.follow(run)
  await killTwice(system, run, client)
  const log = await system.log(run)
  const emission = await agent.emission(run)
  expect(emission.connections.length).toBeGreaterThanOrEqual(3)
  await expectPromises(system, run, { jobs: [emission], clients: [client] })
  expect(log.filter((entry) => entry.kind === 'event' && entry.event.type === GAP)).toEqual([])
  return log
}

const ways = [
  ['goes on after the Last-Event-ID', { resumes: true }],
  ['starts over each time', { resumes: false }],
] as const

describe('I1 I2: an agent nobody here wrote, its relay killed twice, is relayed exactly', () => {
  test.for(ways)('better-sse, which %s', async ([, how], { system, run }) => {
    await using agent = await startBetterSseAgent({ ids: true })
    await relayed(system, run, agent, how)
  })

  test('better-sse, which gives every event a new id each time it sends it', async ({ system, run }) => {
    await using agent = await startBetterSseAgent({ ids: false })
    const url = agent.url(run, { resumes: false, ...script })
    await system.register(run, { url, resume: 'replay' })
    const client = system.follow(run)
    await killTwice(system, run, client)
    const { events, connections } = await agent.emission(run)
    expect(connections.length).toBeGreaterThanOrEqual(3)
    const log = (await system.log(run)).flatMap((entry) => (entry.kind === 'event' ? [entry.event] : []))
    const said = ({ name, data }: { name: string | null; data: string }) => ({ name, data })
    expect(log.slice(0, -1).map(said)).toEqual(events.map(said))
    // Under which id an event was stored is the library's affair; that it was stored under one is ours.
    const named = events.map((event, at) => ({ ...event, id: log[at]?.upstreamId ?? null }))
    expect(new Set(named.map(({ id }) => id)).size).toBe(events.length)
    await expectPromises(system, run, {
      jobs: [{ job: 'main', replays: 'all', events: named, connections }],
      clients: [client],
    })
  })

  test.for(ways)('streamSSE of hono, which %s', async ([, how], { system, run }) => {
    await using agent = await startHonoAgent()
    await relayed(system, run, agent, how)
  })

  test.skipIf(python === null).for(ways)('sse-starlette of FastAPI, which %s', async ([, how], { system, run }) => {
    await using agent = await startFastApiAgent(python ?? '')
    await relayed(system, run, agent, how)
  })
})
