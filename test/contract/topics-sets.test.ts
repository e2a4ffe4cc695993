import { describe, expect, test } from 'vitest'
import type { Nats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { followTopics, type FollowOptions } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient } from '../kit/sse-client.ts'
import { sequenceOf, writeTopic, writeTopics } from '../kit/topics.ts'

/** Several topics and wildcards on one connection: one consumer, in the order of the log, without a hole. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url, { checkMs: 200, lingerMs: 50 }))
})

const follow = (
  topics: readonly string[],
  { at = edge, ...rest }: FollowOptions & { at?: LocalEdge } = {},
): SseClient => followTopics(at, topics, rest)

const consumers = async (nats: Nats): Promise<string[]> => {
  const { state } = await nats.jsm.streams.info(STREAM.topics)
  if (state.consumer_count === 0) return []
  const names: string[] = []
  for await (const { name } of nats.jsm.consumers.list(STREAM.topics)) names.push(name)
  return names
}

/** The sequences of these topics in the log, as it is read by itself. */
async function sequencesIn(nats: Nats, fits: (topic: string) => boolean, after: number): Promise<number[]> {
  const { state } = await nats.jsm.streams.info(STREAM.topics)
  const consumer = await nats.js.consumers.get(STREAM.topics, { opt_start_seq: after + 1 })
  const found: number[] = []
  for await (const message of await consumer.fetch({ max_messages: 100_000, expires: 5000 })) {
    if (fits(message.subject.slice('topic.'.length))) found.push(message.seq)
    if (message.seq >= state.last_seq) break
  }
  await consumer.delete()
  return found
}

describe('a set', () => {
  test('gives its topics in the order of the log, from the start and live', async () => {
    for (let at = 1; at <= 20; at++) await writeTopic(log.nats, ['a.1', 'a.2', 'b.1', 'c'][at % 4] ?? '', `${at}`)
    await using client = follow(['a.*', 'c'], { query: '&from=start' })
    await client.untilEvents(15)
    for (let at = 21; at <= 60; at++) await writeTopic(log.nats, ['a.1', 'a.9', 'b.1', 'c'][at % 4] ?? '', `${at}`)
    await client.untilEvents(45)
    const expected = Array.from({ length: 60 }, (_, at) => at + 1).filter((at) => at % 4 !== 2)
    expect(client.events.map(({ data }) => Number(data))).toEqual(expected)
    expect(new Set(client.events.map(({ event }) => event))).toEqual(new Set(['a.1', 'a.2', 'a.9', 'c']))
  })

  test('is shared by all who ask for the same, in whatever order; the consumer goes with the last of them', async () => {
    const one = follow(['share.a', 'share.b.*'])
    const two = follow(['share.b.*', 'share.a', 'share.a'])
    const three = follow(['share.b.7', 'share.b.*', 'share.a'])
    for (const client of [one, two, three]) await client.until('a first frame', () => true)
    await eventually('one consumer for all', async () => (await consumers(log.nats)).length === 1)
    await writeTopics(log.nats, 'share.b.7', 1, 5)
    for (const client of [one, two, three]) await client.untilEvents(5)
    expect(await consumers(log.nats)).toHaveLength(1)
    expect(edge.edge.store.feeds.size).toBe(1)
    for (const client of [one, two, three]) await client.close()
    await eventually('no consumer is left', async () => (await consumers(log.nats)).length === 0)
    await eventually('no feed is left', () => edge.edge.store.feeds.size === 0)
  })

  test('whose consumer is taken away gets another, and misses nothing', async () => {
    await using client = follow(['gone.*', 'gone.a.b'])
    await client.until('a first frame', () => true)
    for (let round = 0; round < 3; round++) {
      await eventually('it has a consumer', async () => (await consumers(log.nats)).length > 0)
      for (const name of await consumers(log.nats)) await log.nats.jsm.consumers.delete(STREAM.topics, name)
      await writeTopics(log.nats, 'gone.x', round * 30 + 1, round * 30 + 30)
      await client.untilEvents((round + 1) * 30)
    }
    const numbers = client.events.map(({ data }) => Number(data?.split(' ')[1]))
    expect([...numbers].sort((one, other) => one - other)).toEqual(Array.from({ length: 90 }, (_, at) => at + 1))
    const sequences = client.events.map(sequenceOf)
    expect(sequences).toEqual([...sequences].sort((one, other) => one - other))
  })

  test('that is slower than its topics are trimmed is told of it by a reset', async () => {
    await using own = await LogServer.start({ topicEvents: 20 })
    await using at = await LocalEdge.start(own.server.url, { checkMs: 60_000 })
    await using client = follow(['lossy.*', 'nobody'], { at })
    await client.until('a first frame', () => true)
    await writeTopics(own.nats, 'lossy.a', 1, 3)
    await client.untilEvents(3)
    // Nothing can be delivered while the connection is down, and then most of it is gone.
    await at.edge.store.nats.nc.reconnect()
    await writeTopics(own.nats, 'lossy.a', 4, 2000)
    await client.until('the last event', ({ data }) => data === 'lossy.a 2000')
    expect(client.frames.filter(({ event }) => event === 'stream.reset').length).toBeGreaterThan(0)
    let last = 3
    for (const { event, data } of client.frames.slice(
      client.frames.findIndex(({ data: text }) => text === 'lossy.a 3') + 1,
    )) {
      if (event === 'stream.reset') last = -1
      if (event !== 'lossy.a') continue
      const number = Number(data?.split(' ')[1])
      if (last !== -1) expect(number).toBe(last + 1)
      last = number
    }
  })
})

test('I2: topics, sets and wildcards stay consecutive while NATS is killed with -9 again and again', async () => {
  await using own = await LogServer.start({ topicEvents: 100_000 })
  await using one = await LocalEdge.start(own.server.url, { checkMs: 300, ringsBytes: 1 })
  await using other = await LocalEdge.start(own.server.url, { checkMs: 300 })
  const topics = ['k.1', 'k.2', 'k.3.x', 'l.1']
  const sets = [['k.1'], ['k.*', 'l.1'], ['k.>'], ['k.1', 'k.2', 'k.3.x', 'l.1']]
  const urlsOf = (set: readonly string[]) =>
    [one, other].map(({ url }) => `${url}/topics/events?${set.map((name) => `topic=${name}`).join('&')}`)
  const clients = sets.map((set) => new SseClient({ urls: urlsOf(set) }))
  const nomads = sets.map((set) => new SseClient({ urls: urlsOf(set), stall: { everyFrames: 40, ms: 20 } }))
  for (const client of [...clients, ...nomads]) await client.until('a first frame', (frame) => frame.id !== null)
  const begins = [...clients, ...nomads].map((client) =>
    sequenceOf(client.frames.find(({ id }) => id !== null) ?? { id: null }),
  )

  const writing = { goesOn: true }
  let written = 0
  const writer = (async () => {
    for (let at = 0; writing.goesOn; at++) {
      const topic = topics[at % topics.length] ?? ''
      const ack = await own.nats.js.publish(`topic.${topic}`, `${at}`).catch(() => null)
      if (ack !== null) written++
    }
  })()
  for (let round = 1; round <= 4; round++) {
    await eventually('a few hundred more are written', () => written >= round * 250)
    await own.server.kill()
    await own.server.start()
    // Some leave in the middle and come back elsewhere.
    for (const client of nomads) client.drop()
  }
  await eventually('a few hundred more are written', () => written >= 1200)
  writing.goesOn = false
  await writer

  for (const [at, client] of [...clients, ...nomads].entries()) {
    const set = sets[at % sets.length] ?? []
    const fits = (topic: string) =>
      set.some((filter) =>
        new RegExp(`^${filter.replaceAll('.', '\\.').replace('*', '[^.]+').replace('>', '.+')}$`).test(topic),
      )
    const expected = await sequencesIn(own.nats, fits, begins[at] ?? 0)
    await client.untilEvents(expected.length)
    expect(client.events.map(sequenceOf)).toEqual(expected)
    expect(client.frames.filter(({ event }) => event === 'stream.reset')).toEqual([])
    await client.close()
  }
}, 90_000)
