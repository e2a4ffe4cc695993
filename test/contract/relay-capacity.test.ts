import { expect, test } from 'vitest'
import { listKeys } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import { BUCKET } from '@baton/store/names'
import { Agents } from '../kit/agents.ts'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { startRelay } from '../kit/process.ts'
import { wantRun } from '../kit/want-run.ts'

test('I8: a relay at its capacity claims no more; the rest waits for another', async () => {
  await using log = await LogServer.start()
  await using agents = await Agents.start()
  const environment = { BATON_RELAY_CAPACITY: '2' }
  await using first = await startRelay('relay-1', { natsUrl: log.server.url, environment })
  await first.ready()
  // At once, so that the relay hears of all of them before it has claimed one.
  await Promise.all(
    ['r1', 'r2', 'r3', 'r4', 'r5'].map((run) =>
      wantRun(log.nats, run, { url: agents.job(run, { events: 10_000, perSecond: 1 }).url }),
    ),
  )
  const held = async () => {
    const entries = await listKeys(log.nats, BUCKET.claims, AbortSignal.timeout(5000))
    return entries.map((entry) => readClaim(entry)?.relay ?? '').sort()
  }
  await eventually('it is full', async () => (await held()).length === 2)
  // Longer than a sweep: what it would take by mistake it would have taken by then.
  const full = performance.now()
  await eventually('a sweep has passed', async () => {
    expect(await held()).toEqual(['relay-1', 'relay-1'])
    return performance.now() - full > 6000
  })
  await using second = await startRelay('relay-2', { natsUrl: log.server.url, environment })
  await second.ready()
  await eventually('both are full', async () => (await held()).length === 4)
  expect(await held()).toEqual(['relay-1', 'relay-1', 'relay-2', 'relay-2'])
})
