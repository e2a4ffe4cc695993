import { expect, test } from 'vitest'
import { writeKey, type Entry } from '@baton/store/bucket'
import { watchBucket } from '@baton/store/bucket-table'
import { BUCKET } from '@baton/store/names'
import { ensureTopology } from '@baton/store/topology'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'

type Pair = readonly [string, string | null]
const byKey = ([one]: Pair, [other]: Pair): number => one.localeCompare(other)

test('a bucket that was made anew, where revisions begin again, is known as it is after a sweep', async () => {
  await using log = await LogServer.start()
  const over = new AbortController()
  const write = (key: string, value: string) => writeKey(log.nats, BUCKET.runs, key, value)
  for (const key of ['gone', 'stays', 'gone', 'stays', 'same']) await write(key, 'before')
  const changes: Entry[] = []
  const table = watchBucket(log.nats, BUCKET.runs, (entry) => changes.push(entry), over.signal)
  await table.sweep()
  expect(table.entries.size).toBe(3)

  await log.nats.jsm.streams.delete('KV_runs')
  await ensureTopology(log.nats, SMALL_TOPOLOGY)
  const revision = await write('stays', 'after')
  await write('new', 'after')
  changes.length = 0
  await table.sweep()
  const known = [...table.entries.values()].map(({ key, value }): Pair => [key, value])
  expect(known.toSorted(byKey)).toEqual([
    ['new', 'after'],
    ['stays', 'after'],
  ])
  expect(table.revision('stays')).toBe(revision)
  expect(changes.map(({ key, value }): Pair => [key, value]).toSorted(byKey)).toEqual([
    ['gone', null],
    ['new', 'after'],
    ['same', null],
    ['stays', 'after'],
  ])

  changes.length = 0
  await table.sweep()
  expect(changes).toEqual([])
  over.abort(new Error('the test is over'))
})
