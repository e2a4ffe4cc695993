import { expect, test } from 'vitest'
import { listKeys, writeKey } from '@baton/store/bucket'
import { BUCKET } from '@baton/store/names'
import { LogServer } from '../kit/log-server.ts'

test('a list lacks no key that is written anew while it is read', async () => {
  await using log = await LogServer.start()
  const keys = Array.from({ length: 300 }, (_, at) => `progress.r${at}`)
  const write = (key: string) => writeKey(log.nats, BUCKET.heartbeats, key, 'x', { ttlMs: 60_000 })
  await Promise.all(keys.map(write))
  const lists = { left: 100 }
  const writing = (async () => {
    for (let at = 0; lists.left > 0; at++) {
      await Promise.all(Array.from({ length: 20 }, (_, n) => write(keys[(at * 7 + n * 13) % keys.length] ?? '')))
    }
  })()
  for (; lists.left > 0; lists.left--) {
    const listed = await listKeys(log.nats, BUCKET.heartbeats, AbortSignal.timeout(20_000))
    const there = new Set(listed.map(({ key }) => key))
    expect(keys.filter((key) => !there.has(key))).toEqual([])
  }
  await writing
})

test('a list ends where the newest key has expired, and where nothing was ever written', async () => {
  await using log = await LogServer.start()
  const list = () => listKeys(log.nats, BUCKET.heartbeats, AbortSignal.timeout(20_000))
  expect(await list()).toEqual([])
  const first = await writeKey(log.nats, BUCKET.heartbeats, 'progress.a', 'x')
  await log.nats.jsm.streams.purge('KV_heartbeats', { filter: '$KV.heartbeats.progress.b' })
  await writeKey(log.nats, BUCKET.heartbeats, 'progress.b', 'x')
  await log.nats.jsm.streams.purge('KV_heartbeats', { filter: '$KV.heartbeats.progress.b' })
  expect(await list()).toMatchObject([{ key: 'progress.a', revision: first }])
})
