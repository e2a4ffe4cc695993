import { expect } from 'vitest'
import { expectPromises } from '../kit/judge.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

const KILLS = 10

test('I1 I2 I4: the NATS server, killed ten times amid 300 events a second, costs no event and doubles none', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { events: 100_000, perSecond: 300 })
  await using recorder = await LogRecorder.start(system.nats.url)
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  let had = 0
  for (let kill = 1; kill <= KILLS; kill++) {
    // Each kill falls into a stream that flows: so many new events have reached the client since the last one.
    await client.untilEvents(had + 300, 30_000)
    await system.nats.restart()
    had = client.events.length
  }
  await client.untilEvents(had + 300, 30_000)
  expect((await system.post(`/runs/${run}/cancel`, {})).status).toBe(202)
  await client.done
  const log = (await recorder.finish()).get(run)
  const emission = await job.emission()
  const stored = log?.filter((entry) => entry.kind === 'event' && entry.event.job !== null).length ?? 0
  expect(stored).toBeGreaterThan(KILLS * 300)
  // Cancelled, the run ends before its agent does: what it stored must be the first of what the agent emitted.
  const jobs = [{ ...emission, events: emission.events.slice(0, stored) }]
  await expectPromises(system, run, { jobs, clients: [client], log: log ?? [] })
})
