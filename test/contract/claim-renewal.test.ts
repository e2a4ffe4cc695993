import { createLog } from '@baton/service/log'
import { Claims } from '@baton/store/claims'
import { BUCKET, bucketStream } from '@baton/store/names'
import { ensureTopology } from '@baton/store/topology'
import { expect, test } from 'vitest'
import { steadily } from '../kit/eventually.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'

const TTL_MS = 12_000
const RENEW_MS = 4000

test('a claim is renewed as soon as the bucket is back, not when the next renewal is due: by then its term would be over', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  const over = new AbortController()
  const timing = { ttlMs: TTL_MS, renewMs: RENEW_MS }
  const claims = new Claims({ nats, relay: 'relay-1', boot: 'b0b0', ...timing, log: createLog('test', 'silent') })
  const claim = await claims.take('run-1', 0)
  const kept = claims.keep(over.signal)
  const isHeld = () => {
    claim.pulse()
    return !claim.lost.aborted
  }
  // As while it has no leader: nobody answers at all.
  await nats.jsm.streams.delete(bucketStream(BUCKET.claims))
  // Two renewals have been due, and failed.
  await steadily('its term is not over', isHeld, 2 * RENEW_MS + 200)
  await ensureTopology(nats, SMALL_TOPOLOGY)
  await steadily('it is held for a term and longer', isHeld, TTL_MS)
  over.abort()
  await kept
  expect(claims.has('run-1')).toBe(true)
}, 60_000)
