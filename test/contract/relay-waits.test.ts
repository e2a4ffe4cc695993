import { expect, test } from 'vitest'
import { STREAM } from '@baton/store/names'
import { ensureTopology } from '@baton/store/topology'
import { Agents } from '../kit/agents.ts'
import { eventually } from '../kit/eventually.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { startRelay } from '../kit/process.ts'
import { wantRun } from '../kit/want-run.ts'
import { readEvents } from '@baton/store/write-log'

test('a relay whose log is away asks for a run again in time, not in a circle, and goes on when it is back', async () => {
  await using log = await LogServer.start()
  await using agents = await Agents.start()
  await using relay = await startRelay('relay-1', { natsUrl: log.server.url })
  await relay.ready()
  await log.nats.jsm.streams.delete(STREAM.runs)
  await wantRun(log.nats, 'r1', { url: agents.job('r1', { events: 5, perSecond: 0 }).url })
  const attempts = async () => {
    const figures = await (await fetch(`${relay.url}/metrics`)).text()
    return [...figures.matchAll(/^baton_relay_claims_total\{.*\} (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0)
  }
  const begunAtMs = performance.now()
  await eventually('it has tried a few times', async () => (await attempts()) >= 4)
  const seconds = (performance.now() - begunAtMs) / 1000
  // The first waits are 250 ms and longer; in a circle there would be hundreds a second.
  expect(await attempts()).toBeLessThan(10 + 6 * seconds)

  await ensureTopology(log.nats, SMALL_TOPOLOGY)
  await eventually('the run is stored', async () => {
    let count = 0
    for await (const event of readEvents(log.nats, 'r1', 1, AbortSignal.timeout(5000))) count = event.index
    return count >= 6
  })
})
