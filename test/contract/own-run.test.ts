import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { END, type StoredEvent } from '@baton/core/event'
import { WATCHDOG } from '@baton/core/records'
import { parseRunRecord } from '@baton/core/run'
import { createLog } from '@baton/service/log'
import { Registry } from '@baton/service/metrics'
import { Slots } from '@baton/service/slots'
import { Claims } from '@baton/store/claims'
import { connectNats, type Nats } from '@baton/store/connect'
import { readStatus, writeStatus } from '@baton/store/registry'
import { assertOwner, readEvents } from '@baton/store/write-log'
import { QUEUE_BYTES, QUEUE_EVENTS } from '../../apps/relay/src/append.ts'
import { createMetrics } from '../../apps/relay/src/metrics.ts'
import { ownRun } from '../../apps/relay/src/own-run.ts'
import { createUpstream } from '../../apps/relay/src/upstream.ts'
import { endOrphan } from '../../apps/watchdog/src/end-orphan.ts'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { writeRange } from '../kit/write-events.ts'

/** An agent that says all it has to say in one breath, or at `/quiet` nothing at all; `left`: nobody listens to that. */
async function startAgent(events: number) {
  const said = Array.from({ length: events }, (_, at) => `id: ${at + 1}\ndata: ${at + 1}\n\n`).join('')
  const { promise: left, resolve: leave } = Promise.withResolvers<void>()
  const agent = { connections: 0 }
  const server = createServer((request, response) => {
    agent.connections++
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    if (request.url === '/quiet') response.on('close', leave)
    else response.write(said)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return Object.assign(agent, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    left,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => void server.close(resolve))
    },
  })
}

const quiet = createLog('test', 'silent')

/** Takes a run as a relay does; `over` ends what is done beside it. */
async function own(nats: Nats, run: string, jobs: readonly object[], renewMs: number, over: AbortSignal) {
  const spec = parseRunRecord(run, JSON.stringify({ jobs }))
  if (!spec.ok) throw new Error(spec.reason)
  const who = { relay: 'a', boot: 'a' }
  const claims = new Claims({ nats, ...who, ttlMs: 60_000, renewMs, log: quiet })
  void claims.keep(over)
  const upstream = createUpstream({
    allow: ['127.0.0.1'],
    secrets: new Map(),
    silenceMs: 60_000,
    giveUpMs: 0,
    maxEventBytes: 2 ** 19,
  })
  over.addEventListener('abort', () => void upstream.agent.destroy())
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
  const leave = new AbortController()
  const owned = {
    spec: spec.value,
    claim: await claims.take(run, 0),
    ownerSequence: 0,
    onOwned: () => undefined,
    status: null,
    cancelled: cancelled.signal,
    leave,
    onHopeless: () => undefined,
  }
  return { budget, cancelled, leave, ended: ownRun(owned, deps) }
}

/** What all tests here stand on: a log behind a proxy, and a connection to it. */
async function startLog() {
  await using started = new AsyncDisposableStack()
  const log = started.use(await LogServer.start())
  const proxy = started.use(await Proxy.start({ port: log.server.port }))
  const over = new AbortController()
  const servers = [`nats://127.0.0.1:${proxy.port}`]
  const nats = await connectNats({ servers, name: 'baton-test' }, AbortSignal.timeout(10_000))
  started.defer(async () => {
    over.abort(new Error('the test is over'))
    await nats.nc.close()
  })
  const kept = started.move()
  return { log, proxy, nats, over: over.signal, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

test('I1 I2: a run that is cancelled while one of its jobs waits for room has its end last', async () => {
  await using store = await startLog()
  await using agent = await startAgent(4 * QUEUE_EVENTS)
  const { log, proxy, nats, over } = store
  const jobs = [
    { job: 'quiet', url: `${agent.url}/quiet` },
    { job: 'loud', url: `${agent.url}/loud` },
  ]
  const held = proxy.holdAt('up', 'Baton-Index')
  const { budget, cancelled, ended } = await own(nats, 'cancelled', jobs, 20_000, over)
  await eventually('the queue is full', () => budget.bytes > QUEUE_BYTES)
  cancelled.abort(new Error('cancelled'))
  await agent.left
  held.flow()
  expect(await ended).toBe('ended')
  const stored: StoredEvent[] = []
  for await (const event of readEvents(log.nats, 'cancelled', 1, AbortSignal.timeout(10_000))) stored.push(event)
  expect(stored.findIndex(({ type }) => type === END)).toBe(stored.length - 1)
})

test('I6: a run whose log takes long to read is not given up over that', async () => {
  await using store = await startLog()
  await using agent = await startAgent(1)
  const { log, proxy, nats, over } = store
  await writeRange(log.nats, 'long', 1, 8000)
  // All pages together take longer than a claim may go without a sign of life, none of them does.
  proxy.delayMs = 150
  const jobs = ['main', 'other'].map((job) => ({ job, url: `${agent.url}/quiet` }))
  const { leave, ended } = await own(nats, 'long', jobs, 700, over)
  await Promise.race([ended, eventually('its agents are listened to', () => agent.connections === 2)])
  leave.abort(new Error('enough'))
  expect(await ended).toBe('released')
})

test('a run whose status is of a log that was there before this one is told as it is now, and ended', async () => {
  await using store = await startLog()
  await using agent = await startAgent(1)
  const { log, nats, over } = store
  const before = {
    state: 'running',
    end: null,
    relay: 'b',
    boot: 'b',
    jobs: [],
    since: new Date().toISOString(),
  } as const
  // Epochs are sequences of the log, and these have begun again.
  await writeStatus(log.nats, 'anew', { ...before, epoch: 1_000_000 })
  const { cancelled, ended } = await own(nats, 'anew', [{ job: 'main', url: `${agent.url}/quiet` }], 20_000, over)
  await eventually('its status says who has it', async () => (await readStatus(log.nats, 'anew'))?.boot === 'a')
  cancelled.abort(new Error('cancelled'))
  expect(await ended).toBe('ended')
  expect(await readStatus(log.nats, 'anew')).toMatchObject({ state: 'ended', end: { reason: 'cancelled' } })
})

test('a status of a later owner is left as it is by one that was replaced', async () => {
  await using store = await startLog()
  const { nats } = store
  const who = { relay: 'a', boot: 'a', since: new Date().toISOString() }
  const status = { ...who, state: 'running', end: null, jobs: [] } as const
  const epoch = await assertOwner(nats, 'replaced', 0, who)
  const later = await assertOwner(nats, 'replaced', epoch, { ...who, boot: 'b' })
  await writeStatus(nats, 'replaced', { ...status, boot: 'b', epoch: later })
  await expect(writeStatus(nats, 'replaced', { ...status, epoch })).rejects.toMatchObject({ code: 'lost' })
  expect(await readStatus(nats, 'replaced')).toMatchObject({ boot: 'b', epoch: later })
})

test('an orphan whose log takes long to read is ended', async () => {
  await using store = await startLog()
  const { log, proxy, nats, over } = store
  await writeRange(log.nats, 'orphan', 1, 8000)
  proxy.delayMs = 150
  const self = { relay: WATCHDOG, boot: 'w' }
  const claims = new Claims({ nats, ...self, ttlMs: 60_000, renewMs: 700, log: quiet })
  void claims.keep(over)
  const orphan = {
    run: 'orphan',
    holder: null,
    progressRevision: 0,
    jobs: ['main', 'other'],
    jobStatuses: [],
    terminalTypes: null,
  }
  const ended = endOrphan(orphan, { nats, self, claims, logAgeMs: 60_000 }, AbortSignal.timeout(20_000))
  expect(await ended).toMatchObject({ reason: 'orphaned' })
})
