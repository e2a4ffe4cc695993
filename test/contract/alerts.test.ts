import { describe, expect, test } from 'vitest'
import { BatonError } from '@baton/core/errors'
import type { Alert } from '@baton/core/records'
import { ensureDeliveries, listAlerts, nextDelivery, readAlert, storeAlert } from '@baton/store/alerts'
import { connectNats } from '@baton/store/connect'
import { readHeartbeats, writeBusy, writeHeartbeat } from '@baton/store/heartbeats'
import { alertSubject } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'

let log: LogServer
let proxy: Proxy
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  proxy = keep(await Proxy.start({ port: log.server.port }))
})

const signal = AbortSignal.timeout(60_000)
const alert = (run: string, verdict: Alert['verdict'] = 'stalled'): Alert => ({
  run,
  verdict,
  previous: 'running',
  since: '2026-01-01T00:00:00Z',
  epoch: 7,
})
const code = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof BatonError ? error.code : error),
  )

describe('an alert', () => {
  test('is stored once, whoever else saw the same change', async () => {
    const answers = await Promise.all(['a', 'b', 'c'].map((by) => code(storeAlert(log.nats, alert('once'), 0, by))))
    expect(answers.filter((one) => one === 'done')).toHaveLength(1)
    expect(answers.filter((one) => one === 'conflict')).toHaveLength(2)
    const { sequence, alert: stored } = await readAlert(log.nats, 'once')
    expect(stored).toEqual(alert('once'))
    expect(await code(storeAlert(log.nats, alert('once', 'running'), sequence, 'b'))).toBe('done')
    expect((await listAlerts(log.nats, signal)).get('once')?.alert?.verdict).toBe('running')
  })

  test('whose answer was lost is known by who stored it', async () => {
    const over = new AbortController()
    const nats = await connectNats({ servers: [`nats://127.0.0.1:${proxy.port}`], name: 'baton-test' }, over.signal)
    for (let round = 0; round < 10; round++) {
      const run = `lost-${round}`
      // Somewhere on its way, there or back.
      setTimeout(() => proxy.cut(), round)
      const answer = await eventually('it is settled', async () => {
        const settled = await code(storeAlert(nats, alert(run), 0, 'me'))
        return settled === 'unavailable' ? null : settled
      })
      expect(answer).toBe('done')
      expect((await readAlert(log.nats, run)).alert).toEqual(alert(run))
    }
    await nats.nc.close()
  })

  test('that somebody wrote by hand is none, but stands in the way like one', async () => {
    await log.nats.js.publish(alertSubject('hand'), 'hello')
    const last = await readAlert(log.nats, 'hand')
    expect(last.alert).toBeNull()
    expect(await code(storeAlert(log.nats, alert('hand'), 0, 'me'))).toBe('conflict')
    expect(await code(storeAlert(log.nats, alert('hand'), last.sequence, 'me'))).toBe('done')
    expect(await readAlert(log.nats, 'nobody')).toEqual({ sequence: 0, alert: null })
  })
})

test('alerts are handed on in order, each to one taker, and again where it was not done', async () => {
  await ensureDeliveries(log.nats)
  await ensureDeliveries(log.nats)
  await storeAlert(log.nats, alert('first'), 0, 'me')
  await storeAlert(log.nats, alert('second'), 0, 'me')
  const first = await nextDelivery(log.nats, 2000)
  expect([first?.alert?.run, first?.attempt]).toEqual(['first', 1])
  // Nobody gets the second while the first is under way.
  expect(await nextDelivery(log.nats, 1000)).toBeNull()
  first?.againIn(10)
  const again = await nextDelivery(log.nats, 5000)
  expect([again?.alert?.run, again?.attempt]).toEqual(['first', 2])
  await again?.done()
  const second = await nextDelivery(log.nats, 5000)
  expect(second?.alert?.run).toBe('second')
  await second?.done()
})

test('heartbeats have their ages by the clock that stamped them, and only what is there has one', async () => {
  const beat = { relay: 'a', at: 'whenever', job: 'main' }
  await writeHeartbeat(log.nats, 'progress', 'r', beat, 60_000)
  await eventually(
    'time passes',
    async () => ((await readHeartbeats(log.nats, 'w', signal)).ageMs('progress', 'r') ?? 0) >= 50,
  )
  await writeHeartbeat(log.nats, 'liveness', 'r', beat, 60_000)
  await writeBusy(log.nats, 'r', { ...beat, forMs: 5000 }, 60_000)
  const table = await readHeartbeats(log.nats, 'w', signal)
  expect(table.ageMs('progress', 'r')).toBeGreaterThan(table.ageMs('liveness', 'r') ?? Infinity)
  expect(table.ageMs('progress', 'other')).toBeNull()
  expect(table.busyOverMs('r')).toBeLessThan(-3000)
  expect(table.busyOverMs('other')).toBeNull()
  expect(table.revision('progress', 'r')).toBeGreaterThan(0)
  expect(table.revision('progress', 'other')).toBe(0)
  expect(table.isWatchdog('w')).toBe(true)
  expect(table.isWatchdog('x')).toBe(false)
  expect(table.bucketAgeMs).toBeGreaterThan(50)
})
