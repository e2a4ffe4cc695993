import { describe, expect, test } from 'vitest'
import { STREAM, topicSubject } from '@baton/store/names'
import { desiredTopology } from '@baton/store/topology'
import { eventually } from '../kit/eventually.ts'
import { first, followTopics, json, type FollowOptions } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import type { Received, SseClient } from '../kit/sse-client.ts'
import { numbered, sequenceOf, writeTopic, writeTopics } from '../kit/topics.ts'

/** Following topics: every position is served whole or reset, and a busy topic never costs a quiet one anything. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start({ topicEvents: 50 }))
  edge = keep(
    await LocalEdge.start(log.server.url, { checkMs: 100, heartbeatMs: 200, topicStateUrl: '/state/{topic}' }),
  )
})

const follow = (
  topics: readonly string[],
  { at = edge, ...rest }: FollowOptions & { at?: LocalEdge } = {},
): SseClient => followTopics(at, topics, rest)

const texts = (client: SseClient): (string | null)[] => client.events.map(({ data }) => data)
/** A position that a client has which has received this. */
const positionOf = async (sequence: number, server = log): Promise<string> => {
  const found = await server.nats.jsm.streams.getMessage(STREAM.topics, { seq: sequence })
  return `${sequence}-${found?.time.getTime()}`
}

describe('one topic', () => {
  test('from now on: opens at a position, and gives what comes under its name', async () => {
    const last = await writeTopics(log.nats, 'now.1', 1, 3)
    await using client = follow(['now.1'])
    const open = await first(client)
    expect(open).toMatchObject({ event: 'stream.open', comments: ['baton'] })
    expect(json(open)).toEqual({
      position: open.id,
      first: { sequence: last - 2 },
      head: { sequence: last },
      missed: 0,
    })
    expect(sequenceOf(open)).toBeGreaterThanOrEqual(last)
    const next = await writeTopic(log.nats, 'now.1', 'line one\nline two')
    await writeTopic(log.nats, 'now.2', 'another topic')
    await client.untilEvents(1)
    expect(client.events[0]).toMatchObject({
      id: await positionOf(next),
      event: 'now.1',
      data: 'line one\nline two',
    })
    expect(client.events).toHaveLength(1)
  })

  test('from the start, a sequence, a count, a time', async () => {
    const sequences: number[] = []
    for (let at = 1; at <= 6; at++) {
      sequences.push(await writeTopic(log.nats, 'from', `from ${at}`))
      await writeTopic(log.nats, 'between', 'x')
    }
    const third = await log.nats.jsm.streams.getMessage(STREAM.topics, { seq: sequences[2] ?? 0 })
    const time = new Date(third?.time.getTime() ?? 0).toISOString()
    const gives = async (from: string, expected: string[]) => {
      await using client = follow(['from'], { query: `&from=${encodeURIComponent(from)}` })
      await client.untilEvents(expected.length)
      expect(texts(client).slice(0, expected.length), `from=${from}`).toEqual(expected)
      expect((await first(client)).event).toBe('stream.open')
    }
    await gives('start', numbered('from', 1, 6))
    await gives(`${sequences[3]}`, numbered('from', 4, 6))
    await gives(`${(sequences[3] ?? 0) + 1}`, numbered('from', 5, 6))
    await gives('0', numbered('from', 1, 6))
    await gives('-2', numbered('from', 5, 6))
    await gives('-200', numbered('from', 1, 6))
    await using timed = follow(['from'], { query: `&from=${time}` })
    await timed.untilEvents(4)
    expect(texts(timed).slice(-4)).toEqual(numbered('from', 3, 6))
    await using future = follow(['from'], { query: '&from=9000000' })
    await first(future)
    await writeTopic(log.nats, 'from', 'from 7')
    await future.untilEvents(1)
    expect(texts(future)).toEqual(['from 7'])
  })

  test.each(['yesterday', '2026-13-45T00:00:00Z', '1.5', '--1', '-'])('from=%s: 400', async (from) => {
    const response = await fetch(`${edge.url}/topics/events?topic=a&from=${encodeURIComponent(from)}`)
    expect(response.status).toBe(400)
  })

  test.each(['', 'topic=', 'topic=a..b', 'topic=stream.x', 'topic=a.>.b', 'topic=*.1&topic=a.*', 'topic=a&format=x'])(
    '%s: 400',
    async (query) => expect((await fetch(`${edge.url}/topics/events?${query}`)).status).toBe(400),
  )

  test('as envelopes', async () => {
    await using client = follow(['wrapped'], { query: '&format=envelope' })
    await first(client)
    const body = JSON.stringify({ topic: 'wrapped', data: { a: 1 }, type: 'mood ü' })
    const { sequence } = (await (await fetch(`${edge.url}/topics`, { method: 'POST', body })).json()) as {
      sequence: number
    }
    await writeTopic(log.nats, 'wrapped', 'native')
    await client.untilEvents(2)
    const [one, other] = client.events as [Received, Received]
    expect(one.event).toBeNull()
    expect(json(one)).toEqual({
      topic: 'wrapped',
      sequence,
      type: 'mood ü',
      time: new Date(Number(one.id?.split('-')[1])).toISOString(),
      data: '{"a":1}',
    })
    expect(json(other)).toMatchObject({ type: 'message', data: 'native' })
  })

  test('a thing published under one of our own names never reaches a client', async () => {
    await using client = follow(['>'])
    await first(client)
    await log.nats.js.publish('topic.stream.end', '{"reason":"forged"}')
    await writeTopic(log.nats, 'honest', 'after it')
    await client.untilEvents(1)
    expect(texts(client)).toEqual(['after it'])
  })
})

describe('with an id', () => {
  test('goes on behind the ring and live, consecutively, at an edge that knew nothing of it', async () => {
    await using own = await LogServer.start()
    await using other = await LocalEdge.start(own.server.url, { ringsBytes: 1 })
    await writeTopics(own.nats, 'resume', 1, 30)
    const tenth = (await writeTopic(own.nats, 'resume', 'resume 31')) - 21
    await using client = follow(['resume'], { at: other, lastEventId: await positionOf(tenth, own) })
    await writeTopics(own.nats, 'resume', 32, 400)
    await client.untilEvents(390)
    expect(texts(client)).toEqual(numbered('resume', 11, 400))
    expect((await first(client)).id).toBe(await positionOf(tenth, own))
  })

  test('a client that has received nothing misses nothing when it comes back', async () => {
    await using client = follow(['silent'])
    const { id } = await first(client)
    await client.close()
    await writeTopics(log.nats, 'silent', 1, 3)
    await writeTopics(log.nats, 'loud', 1, 20)
    await using back = follow(['silent'], { lastEventId: id ?? '' })
    await back.untilEvents(3)
    expect(texts(back)).toEqual(numbered('silent', 1, 3))
    expect((await first(back)).event).toBe('stream.open')
  })

  test('I2: a busy topic never pushes a quiet one out: its client moves on without events, and is never reset', async () => {
    const quiet = await writeTopics(log.nats, 'quiet.1', 1, 2)
    await using client = follow(['quiet.1'])
    await first(client)
    const end = await writeTopics(log.nats, 'busy.1', 1, 300)
    const moved = await client.until(
      'a position beyond the busy topic',
      (frame) => frame.event === 'stream.position' && sequenceOf(frame) >= end,
    )
    expect(moved.data).toBe('{}')
    await writeTopic(log.nats, 'quiet.1', 'quiet.1 3')
    await client.untilEvents(1)
    expect(texts(client)).toEqual(['quiet.1 3'])
    // Both come from before the busy topic's events, most of which are gone.
    await using back = follow(['quiet.1'], { lastEventId: await positionOf(quiet - 1) })
    await using set = follow(['quiet.*', 'nobody'], { lastEventId: await positionOf(quiet - 1) })
    for (const one of [back, set]) {
      await one.untilEvents(2)
      expect(texts(one)).toEqual(['quiet.1 2', 'quiet.1 3'])
      expect(one.frames.filter(({ event }) => event === 'stream.reset')).toEqual([])
    }
  })

  test('trimmed past it: one reset, then from the oldest kept', async () => {
    const second = (await writeTopics(log.nats, 'trimmed', 1, 3)) - 1
    const id = await positionOf(second)
    await writeTopics(log.nats, 'trimmed', 4, 80)
    for (const topics of [['trimmed'], ['trimmed', 'nobody'], ['trimmed.>', 'trimmed']]) {
      await using client = follow(topics, { lastEventId: id })
      await client.untilEvents(50)
      const reset = await first(client)
      expect(json(reset)).toEqual({
        reason: 'trimmed',
        requested: id,
        resumesAt: reset.id,
        missed: null,
        state: topics.length === 1 ? '/state/trimmed' : null,
      })
      expect(sequenceOf(reset)).toBe(sequenceOf(client.events[0] as Received) - 1)
      expect(texts(client)).toEqual(numbered('trimmed', 31, 80))
      expect(client.frames.filter(({ event }) => event === 'stream.reset')).toHaveLength(1)
    }
  })

  test('from the start: nothing is missed where nothing can be gone, and of the rest nobody knows how much', async () => {
    await writeTopics(log.nats, 'counted.few', 1, 20)
    await writeTopics(log.nats, 'counted.many', 1, 60)
    for (const [topic, missed] of [
      ['counted.few', 0],
      ['counted.many', null],
      ['counted.*', null],
      ['counted.none', 0],
    ] as const) {
      await using client = follow([topic], { query: '&from=start' })
      expect(json(await first(client)), topic).toMatchObject({ missed })
    }
  })

  test('what the log has trimmed, but a ring still has, is served', async () => {
    await using own = await LogServer.start({ topicEvents: 10 })
    await using at = await LocalEdge.start(own.server.url)
    await using client = follow(['kept'], { at })
    await first(client)
    await writeTopics(own.nats, 'kept', 1, 40)
    await client.untilEvents(40)
    await using back = follow(['kept'], { at, lastEventId: client.events[4]?.id ?? '' })
    await back.untilEvents(35)
    expect(texts(back)).toEqual(numbered('kept', 6, 40))
    expect((await first(back)).event).toBe('stream.open')
  })

  test('a new topic under a wildcard is no reset', async () => {
    const last = await writeTopic(log.nats, 'wild.old', 'one')
    await writeTopics(log.nats, 'other.busy', 1, 200)
    await writeTopics(log.nats, 'wild.new', 1, 40)
    await using client = follow(['wild.*'], { lastEventId: await positionOf(last) })
    await client.untilEvents(40)
    expect(texts(client)).toEqual(numbered('wild.new', 1, 40))
    expect((await first(client)).event).toBe('stream.open')
  })

  test.each([['nonsense'], ['12'], ['1-2-3'], ['٣-1']])('that is none (%s): a reset, from now', async (id) => {
    const topic = `garbage.${Buffer.from(id).toString('hex')}`
    await writeTopic(log.nats, topic, 'before')
    await using client = follow([topic], { query: `&lastEventId=${encodeURIComponent(id)}` })
    expect(json(await first(client))).toMatchObject({ reason: 'unknown-id', requested: id, missed: null })
    await writeTopic(log.nats, topic, 'after')
    await client.untilEvents(1)
    expect(texts(client)).toEqual(['after'])
  })

  test('of another time than the message has, or of the future: recreated', async () => {
    const last = await writeTopic(log.nats, 'foreign', 'one')
    const [, at] = (await positionOf(last)).split('-').map(Number) as [number, number]
    for (const id of [`${last}-${at + 1}`, `${last + 1000}-${at}`, `${last}-1`]) {
      await using client = follow(['foreign'], { lastEventId: id })
      expect(json(await first(client))).toMatchObject({ reason: 'recreated', requested: id, missed: null })
    }
  })
})

describe('a cap that was raised', () => {
  test('says nothing about the time before: a position from then is a reset, one from after it is none', async () => {
    await using own = await LogServer.start({ topicEvents: 20 })
    await using at = await LocalEdge.start(own.server.url)
    const early = await positionOf(await writeTopic(own.nats, 'zero', 'x'), own)
    await writeTopics(own.nats, 'raised', 1, 30)
    const { config, state } = await own.nats.jsm.streams.info(STREAM.topics)
    const metadata = { ...config.metadata, raised_at: String(state.last_seq) }
    await own.nats.jsm.streams.update(STREAM.topics, { ...config, max_msgs_per_subject: 100, metadata })
    await own.nats.jsm.streams.purge(STREAM.topics, { filter: topicSubject('zero') })
    const late = await positionOf(state.last_seq, own)
    await writeTopic(own.nats, 'raised', 'raised 31')
    await using before = follow(['raised'], { at, lastEventId: early })
    expect(json(await first(before))).toMatchObject({ reason: 'trimmed' })
    await using after = follow(['raised'], { at, lastEventId: late })
    expect((await first(after)).event).toBe('stream.open')
    await after.untilEvents(1)
  })
})

describe('a stream made anew', () => {
  test.each([
    ['one topic', ['anew']],
    ['a set', ['anew', 'nobody.>']],
  ])('%s: recreated, for who is there and who comes back, also when it has grown past', async (_name, topics) => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url, { checkMs: 200 })
    await using there = follow(topics, { at })
    await first(there)
    const last = await writeTopics(own.nats, 'anew', 1, 10)
    await there.untilEvents(10)
    const id = await positionOf(last, own)
    await own.nats.jsm.streams.delete(STREAM.topics)
    const desired = desiredTopology(SMALL_TOPOLOGY).find((one) => one.name === STREAM.topics)
    await own.nats.jsm.streams.add({ ...desired, name: STREAM.topics })
    await writeTopics(own.nats, 'anew', 101, 103)
    const reset = await there.until('a reset', (frame) => frame.event === 'stream.reset')
    expect(json(reset)).toMatchObject({ reason: 'recreated', missed: null })
    await writeTopics(own.nats, 'anew', 104, 160)
    await there.untilEvents(10 + 57)
    expect(texts(there).slice(-57)).toEqual(numbered('anew', 104, 160))
    await using back = follow(topics, { at, lastEventId: id })
    expect(json(await first(back))).toMatchObject({ reason: 'recreated', requested: id })
    await writeTopic(own.nats, 'anew', 'anew 161')
    await back.untilEvents(1)
    expect(texts(back)).toEqual(['anew 161'])
  })
})

test('an edge follows only what its clients ask for', async () => {
  await using at = await LocalEdge.start(log.server.url, { lingerMs: 50 })
  // What an edge has by itself is there when it can list runs.
  await fetch(`${at.url}/runs`)
  // A sweep has one too, for as long as an answer takes.
  const seen: number[] = []
  await eventually('it was looked at for a while', () => seen.push(at.subscriptions) >= 10)
  const before = Math.min(...seen)
  const client = follow(['only.one'], { at })
  await first(client)
  await eventually('there is one more', () => at.subscriptions === before + 1)
  await client.close()
  await eventually('the subscription goes with its last client', () => at.subscriptions === before)
})

test('HEAD and a wrong Accept', async () => {
  expect((await fetch(`${edge.url}/topics/events?topic=a`, { method: 'HEAD' })).status).toBe(200)
  const refused = await fetch(`${edge.url}/topics/events?topic=a`, { headers: { accept: 'application/json' } })
  expect(refused.status).toBe(406)
})
