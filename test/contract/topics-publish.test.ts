import { describe, expect, test } from 'vitest'
import { STREAM } from '@baton/store/names'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient } from '../kit/sse-client.ts'

/** Publishing: a success is the store's own word, everything else is a clear refusal. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url, { trustedProxies: ['127.0.0.1'], publishPerSecond: 0 }))
})

type Answer = { status: number; body: Record<string, unknown> & { sequence: number; position: string } }

async function post(path: string, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${edge.url}${path}`, { method: 'POST', body: body as string, headers })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

const kept = async (sequence: number): Promise<string | null> => {
  const found = await log.nats.jsm.streams.getMessage(STREAM.topics, { seq: sequence }).catch(() => null)
  return found === null ? null : new TextDecoder().decode(found.data)
}

const lastSequence = async (): Promise<number> => (await log.nats.jsm.streams.info(STREAM.topics)).state.last_seq

describe('one event', () => {
  test('is stored as it is, and the answer says where', async () => {
    const { status, body } = await post('/topics/orders.1', '{"a": 1}\r\n ü')
    expect(status).toBe(201)
    expect(body).toEqual({
      topic: 'orders.1',
      stream: 'TOPICS',
      sequence: await lastSequence(),
      position: expect.stringMatching(new RegExp(`^${body.sequence}-\\d{13}$`)) as string,
      duplicate: false,
    })
    expect(await kept(body.sequence)).toBe('{"a": 1}\r\n ü')
  })

  test('empty is an event, too', async () => {
    const { status, body } = await post('/topics/empty', '')
    expect(status).toBe(201)
    expect(await kept(body.sequence)).toBe('')
  })

  test.each(['orders..1', 'stream.open', '*', 'orders.>', 'a.b.c.d.e.f.g.h.i', 'a%20b', 'x'.repeat(65)])(
    'to %s, which is no topic: 400',
    async (topic) => {
      const before = await lastSequence()
      expect(await post(`/topics/${topic}`, 'x')).toMatchObject({ status: 400, body: { code: 'invalid' } })
      expect(await lastSequence()).toBe(before)
    },
  )

  test('that is no text: 400', async () => {
    expect(await post('/topics/bytes', new Uint8Array([0xff, 0xfe]))).toMatchObject({ status: 400 })
  })

  test('larger than the store takes: 413, whether it is read whole or not', async () => {
    const before = await lastSequence()
    const limit = (log.nats.nc.info?.max_payload ?? 0) - 8192
    expect(await post('/topics/large', 'x'.repeat(limit))).toMatchObject({ status: 201 })
    expect(await post('/topics/large', 'x'.repeat(limit + 1))).toMatchObject({ status: 413 })
    expect(await post('/topics/large', 'x'.repeat(9 * 2 ** 20))).toMatchObject({ status: 413 })
    expect(await lastSequence()).toBe(before + 1)
  })
})

describe('with an Idempotency-Key', () => {
  test('the second one is not stored, and is told where the first one is', async () => {
    const first = await post('/topics/paid.1', 'one', { 'idempotency-key': 'k1' })
    const second = await post('/topics/paid.1', 'two', { 'idempotency-key': 'k1' })
    expect(first.status).toBe(201)
    expect(second.status).toBe(200)
    expect(second.body).toEqual({ ...first.body, duplicate: true })
    expect(await kept(first.body.sequence)).toBe('one')
    expect(await lastSequence()).toBe(first.body.sequence)
  })

  test('one publisher’s key never hides another’s event, nor that of another topic', async () => {
    const key = { 'idempotency-key': 'shared' }
    const answers = [
      await post('/topics/paid.2', 'a', { ...key, 'x-forwarded-for': '192.0.2.1' }),
      await post('/topics/paid.2', 'b', { ...key, 'x-forwarded-for': '192.0.2.2' }),
      await post('/topics/paid.3', 'c', { ...key, 'x-forwarded-for': '192.0.2.1' }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201])
    expect(await Promise.all(answers.map(({ body }) => kept(body.sequence)))).toEqual(['a', 'b', 'c'])
  })
})

describe('as JSON', () => {
  test('text is stored as it is, any other value as its JSON text', async () => {
    const text = await post('/topics', JSON.stringify({ topic: 'json.1', data: 'plain', type: 'note' }))
    expect(text).toMatchObject({ status: 201, body: { topic: 'json.1', duplicate: false } })
    expect(await kept(text.body.sequence)).toBe('plain')
    for (const data of [{ a: [1] }, 0, null, false]) {
      const { body } = await post('/topics', JSON.stringify({ topic: 'json.1', data }))
      expect(await kept(body.sequence)).toBe(JSON.stringify(data))
    }
  })

  test('numbers that JavaScript cannot hold are stored as they were written', async () => {
    const stored = async (json: string) => kept((await post('/topics', json)).body.sequence)
    expect(await stored('{"topic":"json.2","data":{"id": 9007199254740993, "to":[1e400]}}')).toBe(
      '{"id":9007199254740993,"to":[1e400]}',
    )
    expect(await stored('{"topic":"json.2","data":12345678901234567890}')).toBe('12345678901234567890')
    expect(await stored('{"topic":"json.2","data":"9007199254740993"}')).toBe('9007199254740993')
    expect(await post('/topics', '{"topic":9007199254740993,"data":1}')).toMatchObject({ status: 400 })
  })

  test('a byte order mark is data where the body is, and none where the body is JSON', async () => {
    const plain = await post('/topics/marked', '\uFEFFa')
    const stored = await log.nats.jsm.streams.getMessage(STREAM.topics, { seq: plain.body.sequence })
    expect([...(stored?.data ?? [])]).toEqual([0xef, 0xbb, 0xbf, 0x61])
    const json = await post('/topics', '\uFEFF{"topic":"marked","data":"a"}')
    expect(json.status).toBe(201)
  })

  test('half a character is no text: 400, where it would be stored as another one', async () => {
    const before = await lastSequence()
    expect(await post('/topics', '{"topic":"json.3","data":"a\\ud800b"}')).toMatchObject({ status: 400 })
    expect(await lastSequence()).toBe(before)
    const { body } = await post('/topics', '{"topic":"json.3","data":["\\ud800"]}')
    expect(await kept(body.sequence)).toBe('["\\ud800"]')
  })

  test('an array is stored in one piece and answered by one', async () => {
    const events = Array.from({ length: 1000 }, (_, at) => ({ topic: `many.${at % 7}`, data: `event ${at}` }))
    const { status, body } = await post('/topics', JSON.stringify(events))
    expect(status).toBe(201)
    const answers = body as unknown as { topic: string; sequence: number; position: string }[]
    expect(answers.map(({ topic }) => topic)).toEqual(events.map(({ topic }) => topic))
    const [first] = answers
    expect(answers.map(({ sequence }) => sequence)).toEqual(answers.map((_, at) => (first?.sequence ?? 0) + at))
    expect(await kept(answers[999]?.sequence ?? 0)).toBe('event 999')
    const single = await post('/topics', JSON.stringify([{ topic: 'many.0', data: 'alone' }]))
    expect(single).toMatchObject({ status: 201, body: [{ topic: 'many.0' }] })
  })

  test('a hundred arrays at the same moment are all stored: no more at once than the server gets through in time', async () => {
    const before = await lastSequence()
    const array = (at: number) => JSON.stringify([1, 2, 3].map((data) => ({ topic: `crowd.${at}`, data })))
    const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => post('/topics', array(at))))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect(await lastSequence()).toBe(before + 300)
  }, 60_000)

  test.each([
    [
      'one of them to no topic',
      [
        { topic: 'fine', data: 1 },
        { topic: 'stream.no', data: 1 },
      ],
      400,
    ],
    ['one without data', [{ topic: 'fine', data: 1 }, { topic: 'fine' }], 400],
    ['one with a field nobody knows', [{ topic: 'fine', data: 1, key: 'k' }], 400],
    ['none at all', [], 400],
    ['1,001 of them', Array.from({ length: 1001 }, () => ({ topic: 'fine', data: 1 })), 400],
    [
      'one too large',
      [
        { topic: 'fine', data: 1 },
        { topic: 'fine', data: 'x'.repeat(2 ** 20) },
      ],
      413,
    ],
    ['more than a batch holds', Array.from({ length: 3 }, () => ({ topic: 'fine', data: 'x'.repeat(400_000) })), 413],
  ])('an array with %s: all or none', async (_name, events, status) => {
    const before = await lastSequence()
    expect(await post('/topics', JSON.stringify(events))).toMatchObject({ status })
    expect(await lastSequence()).toBe(before)
  })

  test('what is no JSON, and a key that would be ignored: 400', async () => {
    expect(await post('/topics', '{')).toMatchObject({ status: 400 })
    const keyed = await post('/topics', '{"topic":"a","data":1}', { 'idempotency-key': 'k' })
    expect(keyed).toMatchObject({ status: 400 })
  })
})

test('the position of a publish, and of the topic, is one to follow from', async () => {
  await post('/topics/state', 'before')
  const state = (await (await fetch(`${edge.url}/topics/state`)).json()) as Record<string, unknown>
  const { body } = await post('/topics/state', 'one')
  await post('/topics/state', 'two')
  const { sequence } = body
  expect(state).toMatchObject({ topic: 'state', first: { sequence: sequence - 1 }, messages: 1 })
  expect(state['last']).toEqual(state['first'])
  const follow = (lastEventId: string) =>
    new SseClient({ urls: [`${edge.url}/topics/events?topic=state`], reconnects: false, lastEventId })
  await using fromState = follow(state['position'] as string)
  await using fromPublish = follow(body.position)
  await fromState.untilEvents(2)
  await fromPublish.untilEvents(1)
  expect(fromState.events.map(({ data }) => data)).toEqual(['one', 'two'])
  expect(fromPublish.events.map(({ data }) => data)).toEqual(['two'])
  for (const client of [fromState, fromPublish]) expect(client.frames[0]?.event).toBe('stream.open')
})

test('a topic without events has a position, too', async () => {
  const answer = (await (await fetch(`${edge.url}/topics/nothing.yet`)).json()) as Record<string, unknown>
  expect(answer).toMatchObject({ topic: 'nothing.yet', first: null, last: null, messages: 0 })
  expect(answer['position']).toMatch(/^\d+-\d{13}$/)
  expect((await fetch(`${edge.url}/topics/no..topic`)).status).toBe(400)
})

test('a publisher over its rate is told to wait, and locks nobody else out', async () => {
  await using slow = await LocalEdge.start(log.server.url, { publishPerSecond: 5, trustedProxies: ['127.0.0.1'] })
  const publish = (from: string) =>
    fetch(`${slow.url}/topics/rate`, { method: 'POST', body: 'x', headers: { 'x-forwarded-for': from } })
  const greedy = await Promise.all(Array.from({ length: 20 }, () => publish('192.0.2.7')))
  const refused = greedy.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThanOrEqual(10)
  expect(refused[0]?.headers.get('retry-after')).toBe('1')
  expect((await publish('192.0.2.8')).status).toBe(201)
})

describe('when the store is not there', () => {
  test('no stream: 503, and nothing that looks like success', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url)
    await own.nats.jsm.streams.delete(STREAM.topics)
    const publish = (path: string, body: string) => fetch(`${at.url}${path}`, { method: 'POST', body })
    expect((await publish('/topics/a', 'x')).status).toBe(503)
    const array = JSON.stringify([
      { topic: 'a', data: 1 },
      { topic: 'a', data: 2 },
    ])
    expect((await publish('/topics', array)).status).toBe(503)
  })

  test('NATS killed: 503, at once when it is known; back, it takes events again', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url)
    const publish = () => fetch(`${at.url}/topics/a`, { method: 'POST', body: 'x' })
    expect((await publish()).status).toBe(201)
    await own.server.kill()
    const away = await publish()
    expect(away.status).toBe(503)
    expect(away.headers.get('retry-after')).not.toBeNull()
    await expect.poll(() => at.edge.store.connection.connected).toBe(false)
    expect((await publish()).status).toBe(503)
    await own.server.start()
    await expect.poll(async () => (await publish()).status, { timeout: 15_000 }).toBe(201)
  })
})
