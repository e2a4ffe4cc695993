import { expect, test } from 'vitest'
import { writeKey } from '@baton/store/bucket'
import { writeClaim } from '@baton/store/claim-store'
import { BUCKET, DISCONNECT, ownerSubject, pingSubject, RELAY_CONNECTION, STREAM } from '@baton/store/names'
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
  // As with the nats CLI: an edge would look into the log first.
  const { url } = agents.job('r1', { events: 5, perSecond: 0 })
  await writeKey(log.nats, BUCKET.runs, 'r1', JSON.stringify({ url }))
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

test('I6: a run is taken over when the server says that its owner is gone, also from one that was only just asked after', async () => {
  await using log = await LogServer.start()
  await using agents = await Agents.start()
  const { nc, js } = log.nats
  // Somebody who owns a run, and whom no relay has heard: as for one that has only just started.
  const owner = { relay: 'relay-0', boot: 'unheard', epoch: 1, since: new Date().toISOString() }
  const asked: string[] = []
  const answering = nc.subscribe(pingSubject(owner.boot), {
    callback: (_error, message) => {
      asked.push(message.subject)
      message.respond()
    },
  })
  await js.publish(ownerSubject('r1'), JSON.stringify(owner))
  await writeClaim(log.nats, 'r1', owner, 0, 60_000)
  await wantRun(log.nats, 'r1', { url: agents.job('r1', { events: 5, perSecond: 0 }).url })

  await using relay = await startRelay('relay-1', { natsUrl: log.server.url })
  await eventually('the relay has asked after it', () => asked.length > 0)
  answering.unsubscribe()
  nc.publish(DISCONNECT, JSON.stringify({ client: { name: RELAY_CONNECTION + owner.boot } }))
  const cause = await eventually('the run is taken over', async () => {
    const figures = await (await fetch(`${relay.url}/metrics`)).text()
    return /^baton_relay_takeovers_total\{cause="(\w+)"\} 1$/m.exec(figures)?.[1]
  })
  // Else it would have been asked after once more first, a second later.
  expect(cause).toBe('dead')
})
