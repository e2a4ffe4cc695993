import { headers } from '@nats-io/nats-core'
import { expect, test } from 'vitest'
import { directGet } from '@baton/store/direct-get'
import { STREAM, topicSubject } from '@baton/store/names'
import { first, followTopics } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { writeTopic } from '../kit/topics.ts'

/** Who copies messages from one NATS to another copies what the first one has put into their headers, too. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url, { checkMs: 100, heartbeatMs: 200 }))
})

/** Publishes what the NATS it is copied from had at `sequence`, behind `previous` in its topic. */
async function copyTo(topic: string, data: string, sequence = 100_000, previous = 99_999): Promise<number> {
  const map = headers()
  map.set('Nats-Stream', 'ELSEWHERE')
  map.set('Nats-Subject', topicSubject('elsewhere'))
  map.set('Nats-Sequence', String(sequence))
  map.set('Nats-Last-Sequence', String(previous))
  map.set('Nats-Time-Stamp', '2020-01-01T00:00:00.000000000Z')
  map.set('Nats-Num-Pending', '7')
  return (await log.nats.js.publish(topicSubject(topic), data, { headers: map })).seq
}

test('I2: a topic that copies are published to is followed in the order that it has here', async () => {
  await using client = followTopics(edge, ['copied'])
  await first(client)
  const one = await writeTopic(log.nats, 'copied', 'one')
  await client.untilEvents(1)
  // There, as here, it came right behind the one before, but three more had been stored in between.
  const sequences = [
    one,
    await copyTo('copied', 'two', one + 4, one),
    await writeTopic(log.nats, 'copied', 'three'),
    await copyTo('copied', 'four'),
  ]
  await client.untilEvents(4)
  const positions = await Promise.all(
    sequences.map(async (seq) => {
      const found = await log.nats.jsm.streams.getMessage(STREAM.topics, { seq })
      return `${seq}-${found?.time.getTime()}`
    }),
  )
  expect(client.events.map(({ event, data, id }) => [event, data, id])).toEqual(
    ['one', 'two', 'three', 'four'].map((data, at) => ['copied', data, positions[at]]),
  )
  expect(client.frames.filter(({ event }) => event === 'stream.reset')).toEqual([])
})

test('a copied message is read as what it is here', async () => {
  const sequences = [
    await writeTopic(log.nats, 'read', 'one'),
    await copyTo('read', 'two'),
    await writeTopic(log.nats, 'read', 'three'),
  ]
  const request = { seq: 1, next_by_subj: topicSubject('read'), batch: 10 }
  const found = await directGet(log.nats, STREAM.topics, request, 2000)
  expect(found.map(({ subject, seq, pending }) => ({ subject, seq, pending }))).toEqual(
    sequences.map((seq, at) => ({ subject: topicSubject('read'), seq, pending: 2 - at })),
  )
})
