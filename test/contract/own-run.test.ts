import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { END, type StoredEvent } from '@baton/core/event'
import { parseRunRecord } from '@baton/core/run'
import { createLog } from '@baton/service/log'
import { Registry } from '@baton/service/metrics'
import { Slots } from '@baton/service/slots'
import { Claims } from '@baton/store/claims'
import { connectNats } from '@baton/store/connect'
import { readEvents } from '@baton/store/write-log'
import { QUEUE_BYTES, QUEUE_EVENTS } from '../../apps/relay/src/append.ts'
import { createMetrics } from '../../apps/relay/src/metrics.ts'
import { ownRun } from '../../apps/relay/src/own-run.ts'
import { createUpstream } from '../../apps/relay/src/upstream.ts'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'

/** An agent that says all it has to say in one breath, or at `/quiet` nothing at all; `left`: nobody listens to that. */
async function startAgent(events: number) {
  const said = Array.from({ length: events }, (_, at) => `id: ${at + 1}\ndata: ${at + 1}\n\n`).join('')
  const { promise: left, resolve: leave } = Promise.withResolvers<void>()
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    if (request.url === '/quiet') response.on('close', leave)
    else response.write(said)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    left,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => void server.close(resolve))
    },
  }
}

test('I1 I2: a run that is cancelled while one of its jobs waits for room has its end last', async () => {
  await using log = await LogServer.start()
  await using proxy = await Proxy.start({ port: log.server.port })
  await using agent = await startAgent(4 * QUEUE_EVENTS)
  const nats = await connectNats(
    { servers: [`nats://127.0.0.1:${proxy.port}`], name: 'baton-test' },
    AbortSignal.timeout(10_000),
  )
  const run = 'cancelled'
  const jobs = [
    { job: 'quiet', url: `${agent.url}/quiet` },
    { job: 'loud', url: `${agent.url}/loud` },
  ]
  const spec = parseRunRecord(run, JSON.stringify({ jobs }))
  if (!spec.ok) throw new Error(spec.reason)
  const who = { relay: 'a', boot: 'a' }
  const quiet = createLog('test', 'silent')
  const claims = new Claims({ nats, ...who, ttlMs: 60_000, renewMs: 20_000, log: quiet })
  const upstream = createUpstream({
    allow: ['127.0.0.1'],
    secrets: new Map(),
    silenceMs: 60_000,
    giveUpMs: 0,
    maxEventBytes: 2 ** 19,
  })
  const budget = { bytes: 0, limitBytes: 2 ** 28 }
  const now = { runs: () => 1, queueBytes: () => budget.bytes, loopLagMs: () => 0 }
  const deps = {
    nats,
    ...who,
    budget,
    upstream,
    readings: new Slots(1),
    heartbeatWriteMs: 5000,
    livenessTtlMs: 60_000,
    progressTtlMs: 60_000,
    runsMaxAgeMs: 60_000,
    metrics: createMetrics(new Registry(), now),
    log: quiet,
  }
  const cancelled = new AbortController()
  const owned = {
    spec: spec.value,
    claim: await claims.take(run, 0),
    ownerSequence: 0,
    onOwned: () => undefined,
    status: null,
    cancelled: cancelled.signal,
    leave: new AbortController(),
    onHopeless: () => undefined,
  }
  const held = proxy.holdAt('up', 'Baton-Index')
  const owning = ownRun(owned, deps)
  await eventually('the queue is full', () => budget.bytes > QUEUE_BYTES)
  cancelled.abort(new Error('cancelled'))
  await agent.left
  held.flow()
  expect(await owning).toBe('ended')
  const stored: StoredEvent[] = []
  for await (const event of readEvents(log.nats, run, 1, AbortSignal.timeout(10_000))) stored.push(event)
  expect(stored.findIndex(({ type }) => type === END)).toBe(stored.length - 1)
  await upstream.agent.destroy()
  await nats.nc.close()
})
