import { expect } from 'vitest'
import { GAP, type Gap } from '@baton/core/event'
import { expectPromises } from '../kit/judge.ts'
import { indexOf, type SseClient } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

/** Kills the run's relay each time so many events have come. */
async function killAt(counts: readonly number[], system: System, run: string, client: SseClient): Promise<void> {
  for (const events of counts) {
    await client.untilEvents(events)
    const owner = await system.owner(run)
    await owner.child.kill()
    await owner.restart({ wait: false })
  }
  await client.done
}

test('I1: an agent whose window has passed by the time it is reached again: one gap for each hole, told as that', async ({
  system,
  run,
}) => {
  // The window is over within 10 ms; no takeover is as fast.
  const job = system.agents.job(run, { mode: 'window', window: 5, events: 4000, perSecond: 500 })
  await system.register(run, { url: job.url, resume: 'replay' })
  const client = system.follow(run)
  await killAt([200, 600], system, run, client)
  const log = await system.log(run)
  await expectPromises(system, run, { jobs: [await job.emission()], clients: [client] })
  const gaps = log.flatMap((entry) => (entry.kind === 'event' && entry.event.type === GAP ? [entry.event.data] : []))
  expect(gaps.map((data) => (JSON.parse(data) as Gap).reason)).toEqual(['window', 'window'])
})

test('I1: an agent whose ids begin at 1 again and again is relayed exactly', async ({ system, run }) => {
  // Far apart enough for the agent to know which of two it is asked to go on from.
  const job = system.agents.job(run, { idRestart: 200, events: 450, perSecond: 30 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await killAt([100, 250, 400], system, run, client)
  await expectPromises(system, run, { jobs: [await job.emission()], clients: [client] })
})

test('I1 I2: an agent that says something else each time has diverged: each time one gap, and what it says now is kept whole', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { mode: 'replay', nondeterministic: true, events: 900, perSecond: 100 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await killAt([50, 180], system, run, client)
  const log = (await system.log(run)).flatMap((entry) => (entry.kind === 'event' ? [entry.event] : []))
  const gaps = log.flatMap(({ type }, at) => (type === GAP ? [at] : []))
  expect(gaps.map((at) => (JSON.parse(log[at]?.data ?? '') as Gap).reason)).toEqual(['diverged', 'diverged'])
  const [, second = 0] = gaps
  // The last connection began anew, and was heard from its first event to its terminal one.
  const last = log.slice(second + 1, -1)
  expect(last.map(({ ordinal }) => ordinal)).toEqual(Array.from({ length: 901 }, (_, at) => at + 1))
  expect(last.at(-1)?.type).toBe('done')
  expect(client.breach).toBeNull()
  expect(client.events.map(indexOf)).toEqual(log.map(({ index }) => index))
  expect(client.events.map(({ data }) => data)).toEqual(log.map(({ data }) => data))
})
