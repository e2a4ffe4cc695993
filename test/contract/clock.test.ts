import { afterEach, expect, test } from 'vitest'
import { connectNats } from '@baton/store/connect'
import { eventually } from '../kit/eventually.ts'
import { NatsServer } from '../kit/nats-server.ts'

const HOUR_MS = 3_600_000
const now = Date.now
afterEach(() => {
  Date.now = now
})

test('a connection that was made before the wall clock went back by an hour is made anew within moments', async () => {
  await using server = await NatsServer.start()
  Date.now = () => now() + HOUR_MS
  const nats = await connectNats({ servers: [server.url], name: 'test' }, AbortSignal.timeout(10_000))
  Date.now = now
  await server.restart()
  await eventually('it is back', async () => (await nats.nc.flush().then(() => true)) && !nats.nc.isClosed(), {
    withinMs: 10_000,
  })
  await nats.nc.close()
})

test('while a server is away it is dialled again and again, but not without a pause', async () => {
  await using server = await NatsServer.start()
  const nats = await connectNats({ servers: [server.url], name: 'test' }, AbortSignal.timeout(10_000))
  let dials = 0
  void (async () => {
    for await (const { type } of nats.nc.status()) if (type === 'reconnecting') dials++
  })()
  await server.kill()
  const startedAtMs = performance.now()
  await eventually('it was dialled ten times', () => dials >= 10)
  expect(performance.now() - startedAtMs).toBeGreaterThan(300)
  await nats.nc.close()
})
