import { watchKeys } from '@baton/store/bucket'
import { BUCKET } from '@baton/store/names'
import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogServer } from '../kit/log-server.ts'

const TIMES = 300

test('a watch ends whenever it is told to, also while it is being made', async () => {
  await using log = await LogServer.start()
  let ended = 0
  for (let time = 0; time < TIMES; time++) {
    const over = new AbortController()
    const watching = watchKeys(log.nats, BUCKET.heartbeats, () => undefined, over.signal)
    // It takes some turns of the event loop to make one: each of them is tried, and the first of all.
    for (let turn = 0; turn < time % 30; turn++) await setImmediate()
    over.abort()
    const left = new AbortController()
    const late = delay(5000, false, { signal: left.signal }).catch(() => false)
    if (!(await Promise.race([watching.then(() => true), late]))) break
    left.abort()
    ended++
  }
  expect(ended).toBe(TIMES)
})
