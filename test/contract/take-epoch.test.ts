import { createLog } from '@baton/service/log'
import { Claims } from '@baton/store/claims'
import { STREAM } from '@baton/store/names'
import { takeEpoch } from '@baton/store/take-epoch'
import { ensureTopology } from '@baton/store/topology'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'

const RUNS = 50
const AWAY_MS = 3000

test('while there is no log an epoch is asked for seldom, and had soon after there is one', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  const owner = { relay: 'relay-1', boot: 'b0b0' }
  const claims = new Claims({ nats, ...owner, ttlMs: 15_000, renewMs: 5000, log: createLog('test', 'silent') })
  const held = await Promise.all(Array.from({ length: RUNS }, (_, at) => claims.take(`run-${at}`, 0)))
  await nats.jsm.streams.delete(STREAM.runs)
  const sent = nats.nc.stats().outMsgs
  const taking = Promise.all(held.map((claim) => takeEpoch(nats, claim, owner, 0, AbortSignal.timeout(20_000))))
  await delay(AWAY_MS)
  const asked = nats.nc.stats().outMsgs - sent
  // All relays of a cluster wait out an election so: twenty times a second for each of hundreds of runs is their end.
  expect(asked).toBeGreaterThan(RUNS)
  expect(asked / RUNS / (AWAY_MS / 1000)).toBeLessThan(10)
  await ensureTopology(nats, SMALL_TOPOLOGY)
  const backAtMs = performance.now()
  const taken = await taking
  expect(performance.now() - backAtMs).toBeLessThan(3000)
  expect(new Set(taken.map(({ fence }) => fence.epoch)).size).toBe(RUNS)
})
