import { expect, test } from 'vitest'
import { createLog } from '@baton/service/log'
import { connectNats, type Nats } from '@baton/store/connect'
import { readKeyAtLeader } from '@baton/store/bucket'
import { releaseClaim, writeClaim } from '@baton/store/claim-store'
import { Claims } from '@baton/store/claims'
import { BUCKET } from '@baton/store/names'
import { append, assertOwner, readEvents, readOwner } from '@baton/store/write-log'
import { takeEpoch } from '@baton/store/take-epoch'
import { Appender, QUEUE_EVENTS, type Budget } from '../../apps/relay/src/append.ts'
import { eventually, steadily } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { runEvent } from '../kit/write-events.ts'

let log: LogServer
let proxy: Proxy
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  proxy = keep(await Proxy.start({ port: log.server.port }))
})

const quiet = createLog('test', 'silent')

/** An appender as an owner has it, its NATS behind the proxy. */
async function owner(run: string, over: AbortController, budget: Budget = { bytes: 0, limitBytes: 2 ** 28 }) {
  const nats: Nats = await connectNats({ servers: [`nats://127.0.0.1:${proxy.port}`], name: 'baton-test' }, over.signal)
  over.signal.addEventListener('abort', () => void nats.nc.close())
  const who = { relay: 'a', boot: run }
  const claims = new Claims({ nats, ...who, ttlMs: 60_000, renewMs: 20_000, log: quiet })
  const claim = await claims.take(run, 0)
  let retries = 0
  const epochs: number[] = []
  const take = async (expected: number) => {
    const taken = await takeEpoch(nats, claim, who, expected, over.signal)
    epochs.push(taken.fence.epoch)
    return taken
  }
  const { fence } = await take((await readOwner(nats, run)).sequence)
  const stored: number[] = []
  const appender: Appender = new Appender(
    {
      nats,
      fence,
      nextIndex: 1,
      budget,
      takeOver: () => take(appender.fence.epoch),
      onStored: (events) => stored.push(...events.map(({ index }) => index)),
      onRetry: () => retries++,
      log: quiet,
    },
    over.signal,
  )
  const failed = appender.run().catch((error: unknown) => error)
  return { appender, stored, epochs, failed, claim, retries: () => retries }
}

async function ordinals(run: string): Promise<number[]> {
  const found: number[] = []
  for await (const event of readEvents(log.nats, run, 1, AbortSignal.timeout(20_000))) {
    expect(event.index).toBe(found.length + 1)
    found.push(event.ordinal ?? 0)
  }
  return found
}
const upTo = (n: number) => Array.from({ length: n }, (_, at) => at + 1)

test('a claim is kept through more than one of its renewals while NATS answers nothing at all', async () => {
  const over = new AbortController()
  const nats = await connectNats({ servers: [`nats://127.0.0.1:${proxy.port}`], name: 'baton-test' }, over.signal)
  const who = { relay: 'a', boot: 'patient' }
  const claims = new Claims({ nats, ...who, ttlMs: 60_000, renewMs: 1500, log: quiet })
  void claims.keep(over.signal)
  const claim = await claims.take('patient', 0)
  const held = proxy.holdUp()
  const taking = takeEpoch(nats, claim, who, 0, over.signal)
  taking.catch(() => undefined)
  await steadily('the claim is held', () => !claim.lost.aborted, 3500)
  held.flow()
  expect((await taking).fence.run).toBe('patient')
  over.abort(new Error('the test is over'))
  await nats.nc.close()
})

test('I1, I4: whatever is cut, everything pushed is stored once and in order', async () => {
  const over = new AbortController()
  const { appender, stored, epochs } = await owner('cuts', over)
  for (let at = 1; at <= 3000; at++) {
    await appender.push(runEvent(at))
    // Single appends and batches both meet a cut, some of them with the answer on its way.
    if (at % 300 === 0) proxy.cut()
    if (at % 100 < 20) await appender.flush(over.signal)
  }
  await appender.flush(over.signal)
  expect(await ordinals('cuts')).toEqual(upTo(3000))
  expect(stored).toEqual(upTo(3000))
  expect(epochs.length).toBeGreaterThan(1)
  over.abort()
})

test('I1: a server killed with -9 in the middle, three times', async () => {
  const over = new AbortController()
  const { appender } = await owner('kills', over)
  const killing = (async () => {
    for (let kill = 0; kill < 3; kill++) {
      const before = appender.storedIndex
      await eventually('something was stored', () => appender.storedIndex > before + 200)
      await log.server.restart()
    }
  })()
  let at = 0
  const kills = { left: true }
  void killing.finally(() => (kills.left = false))
  while (kills.left) {
    await appender.push(runEvent(++at))
    if (at % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  await killing
  await appender.flush(over.signal)
  expect(await ordinals('kills')).toEqual(upTo(at))
  over.abort()
})

test('I3: an append that arrives after its sender took a new epoch is refused', async () => {
  const over = new AbortController()
  const { appender, epochs } = await owner('late', over)
  await appender.push(runEvent(1))
  await appender.flush(over.signal)
  const held = proxy.holdUp()
  await appender.push(runEvent(2))
  await eventually('the append is on its way', () => held.waiting().includes('event 2'))
  held.cutClients()
  await eventually('a new epoch was taken', () => epochs.length > 1)
  await appender.flush(over.signal)
  held.flow()
  await appender.push(runEvent(3))
  await appender.flush(over.signal)
  expect(await ordinals('late')).toEqual([1, 2, 3])
  over.abort()
})

test('I3: an owner whose run is taken stops, and what it had queued is not stored', async () => {
  const over = new AbortController()
  const budget: Budget = { bytes: 0, limitBytes: 2 ** 28 }
  const { appender, failed } = await owner('taken', over, budget)
  await appender.push(runEvent(1))
  await appender.flush(over.signal)
  const { sequence } = await readOwner(log.nats, 'taken')
  const other = { relay: 'b', boot: 'b', since: '' }
  await assertOwner(log.nats, 'taken', sequence, other)
  await appender.push(runEvent(2))
  expect(await failed).toMatchObject({ code: 'lost' })
  await expect(appender.flush(over.signal)).rejects.toMatchObject({ code: 'lost' })
  await expect(appender.push(runEvent(3))).rejects.toMatchObject({ code: 'lost' })
  expect(budget.bytes).toBe(0)
  expect(await ordinals('taken')).toEqual([1])
  over.abort()
})

test.for([
  ['and has kept it', false],
  ['and has given it back', true],
] as const)('I3: an owner cut off while another took the run %s stops, and stores nothing', async ([, gaveBack]) => {
  const over = new AbortController()
  const run = `replaced-${gaveBack}`
  const { appender, failed } = await owner(run, over)
  await appender.push(runEvent(1))
  await appender.flush(over.signal)
  const held = proxy.holdUp()
  await appender.push(runEvent(2))
  await eventually('the append is on its way', () => held.waiting().includes('event 2'))

  const { sequence } = await readOwner(log.nats, run)
  const entry = await readKeyAtLeader(log.nats, BUCKET.claims, run)
  const other = { relay: 'b', boot: 'b', since: '' }
  const revision = await writeClaim(log.nats, run, { ...other, epoch: null }, entry.revision, 60_000)
  const epoch = await assertOwner(log.nats, run, sequence, other)
  await append(log.nats, { run, epoch }, [runEvent(2, { epoch }), runEvent(3, { epoch })], 1000)
  if (gaveBack) await releaseClaim(log.nats, run, revision)

  held.cutClients()
  expect(await failed).toMatchObject({ code: 'lost' })
  held.flow()
  expect(await ordinals(run)).toEqual([1, 2, 3])
  // Given back, the run was nobody's: the claim was rightly its own again, but what it had in flight was not.
  if (!gaveBack) expect((await readOwner(log.nats, run)).record).toMatchObject({ boot: 'b' })
  over.abort()
})

test('I8: at the limit of its queue a push waits, and goes on when there is room', async () => {
  const over = new AbortController()
  const budget: Budget = { bytes: 0, limitBytes: 2 ** 28 }
  const { appender } = await owner('full', over, budget)
  const held = proxy.holdUp()
  let pushed = 0
  const pushing = (async () => {
    for (; pushed < QUEUE_EVENTS + 500; pushed++) await appender.push(runEvent(pushed + 1, { data: 'x' }))
  })()
  await eventually('the queue is full', () => pushed >= 1000)
  const at = pushed
  await new Promise((resolve) => setImmediate(resolve))
  expect(pushed).toBe(at)
  expect(budget.bytes).toBeGreaterThan(0)
  held.flow()
  await pushing
  await appender.flush(over.signal)
  expect(await ordinals('full')).toEqual(upTo(QUEUE_EVENTS + 500))
  expect(budget.bytes).toBe(0)
  over.abort()
})

test('I1: who waits for what is queued waits for nothing that another job queues meanwhile', async () => {
  const over = new AbortController()
  const { appender, stored } = await owner('busy', over)
  const written = Promise.withResolvers<void>()
  const held = proxy.holdUp()
  await appender.push(runEvent(1))
  await eventually('the append is on its way', () => held.waiting().includes('event 1'))
  appender.between(() => written.promise)
  const flushed = appender.flush(over.signal)
  held.flow()
  await eventually('it is stored', () => stored.length === 1)
  // The queue is empty now, and a checkpoint is being written.
  await appender.push(runEvent(2))
  await flushed
  written.resolve()
  await appender.flush(over.signal)
  expect(await ordinals('busy')).toEqual([1, 2])
  over.abort()
})

test('I1: one job that never pauses keeps no other from knowing what is stored', async () => {
  const over = new AbortController()
  const { appender, stored } = await owner('stream', over)
  const pushing = { ends: false }
  const streaming = (async () => {
    for (let at = 1; !pushing.ends; at++) await appender.push(runEvent(at))
  })()
  await eventually('the queue has filled up', () => stored.length > QUEUE_EVENTS)
  const before = stored.length
  await appender.flush(over.signal)
  expect(stored.length).toBeGreaterThanOrEqual(before)
  pushing.ends = true
  await streaming
  over.abort()
})
