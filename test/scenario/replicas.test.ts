import { STREAM } from '@baton/store/names'
import { expect } from 'vitest'
import { expectPromises } from '../kit/judge.ts'
import { NODES } from '../kit/nats-cluster.ts'
import { LogRecorder, readLogsOf } from '../kit/read-log.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 2, cluster: {} })

test('I1 I2: the life of a run on three replicas, and the same log on each', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 500, perSecond: 200 })
  await using recorder = await LogRecorder.start(system.natsUrl)
  await system.register(run, { url: job.url })
  const clients = [system.follow(run), system.follow(run)]
  await Promise.all(clients.map((client) => client.done))
  const { config } = await system.store.jsm.streams.info(STREAM.runs)
  expect(config.num_replicas).toBe(3)
  const log = (await recorder.finish()).get(run) ?? []
  await expectPromises(system, run, { jobs: [await job.emission()], clients, log })
  await system.cluster.healthy()
  const events = log.filter((entry) => entry.kind === 'event')
  for (const node of NODES) {
    const own = (await readLogsOf(system.store, node)).get(run)?.filter((entry) => entry.kind === 'event')
    expect(own).toEqual(events)
  }
})
