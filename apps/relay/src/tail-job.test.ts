import { getEventListeners } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { BatonError } from '@baton/core/errors'
import type { JobEvent } from '@baton/core/event'
import { FRESH_CURSOR, type JobCursor } from '@baton/core/records'
import type { KeptEvent } from './tail-job.ts'
import {
  breaks,
  closeAll,
  DONE,
  ends,
  says,
  streams,
  testAgent,
  testSpec,
  testTail,
  testUpstream,
} from './test-agent.ts'

afterEach(closeAll)

const completed = { reason: 'completed', detail: null }
const datas = (events: readonly JobEvent[]): string[] => events.map(({ data }) => data)
const gapOf = (reason: string, lost: number | null = null) => JSON.stringify({ job: 'main', reason, lost })

describe('a job', () => {
  test('is stored event by event until its terminal one; what follows that is not', async () => {
    const agent = await testAgent(
      streams(`id: 1\nevent: output\ndata: a\n\ndata: {"type":"x"}\n\n${DONE}data: late\n\n`),
    )
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual(completed)
    expect(tail.stored).toMatchObject([
      { job: 'main', type: 'output', name: 'output', data: 'a', ordinal: 1, upstreamId: '1', upstreamOffset: 0 },
      { type: 'x', name: null, data: '{"type":"x"}', ordinal: 2, upstreamId: '1', upstreamOffset: 1 },
      { type: 'done', name: 'done', data: '{}', ordinal: 3, upstreamId: '1', upstreamOffset: 2 },
    ])
    expect(Date.parse(tail.stored[0]?.time ?? '')).toBeGreaterThan(Date.now() - 10_000)
    expect(tail.states).toEqual(['connecting', 'connected'])
    await expect.poll(agent.sockets).toBe(0)
  })

  test.each([
    ['event: failed\ndata: x\n\n', 'failed'],
    ['event: cancelled\ndata: x\n\n', 'cancelled'],
    ['data: {"type":"failed"}\n\n', 'failed'],
    ['data: [DONE]\n\n', 'completed'],
  ])('whose last event is %j is %s', async (text, reason) => {
    const agent = await testAgent(streams(text))
    expect(await testTail(testSpec(agent.url)).outcome).toEqual({ reason, detail: null })
  })

  test('sends what it has: the accepted type, its own headers and secret, the id in UTF-8', async () => {
    const agent = await testAgent(ends('id: č…\ndata: a\n\n'), streams(DONE))
    const upstream = testUpstream({ secrets: new Map([['KEY', 's3cret']]) })
    const headers = { 'X-Tenant': 't1', Accept: 'text/html', 'Last-Event-ID': 'mine', Connection: 'close' }
    await testTail(testSpec(agent.url, { headers, secret: 'KEY' }), { upstream }).outcome
    const [first, second] = agent.requests
    expect(first?.url).toBe('/stream?job=1')
    expect(first?.headers).toMatchObject({
      accept: 'text/event-stream',
      'accept-encoding': 'identity',
      'cache-control': 'no-cache',
      authorization: 'Bearer s3cret',
      'x-tenant': 't1',
    })
    expect(first?.headers['last-event-id']).toBeUndefined()
    expect(Buffer.from(String(second?.headers['last-event-id']), 'latin1').toString()).toBe('č…')
  })

  test('may send its secret bare, in a header of its own', async () => {
    const agent = await testAgent(streams(DONE))
    const upstream = testUpstream({ secrets: new Map([['KEY', 's3cret']]) })
    await testTail(testSpec(agent.url, { secret: 'KEY', secretHeader: 'X-Api-Key' }), { upstream }).outcome
    expect(agent.requests[0]?.headers).toMatchObject({ 'x-api-key': 's3cret' })
    expect(agent.requests[0]?.headers.authorization).toBeUndefined()
  })

  test('whose secret this relay lacks is failing, and asks nothing', async () => {
    const agent = await testAgent(streams(DONE))
    const tail = testTail(testSpec(agent.url, { secret: 'KEY' }))
    await expect.poll(() => tail.failures).toEqual([1])
    expect(tail.states).toContain('failing: this relay has no secret named KEY')
    expect(agent.requests).toHaveLength(0)
  })
})

describe('after a cut', () => {
  test('it goes on from the last id', async () => {
    const agent = await testAgent(
      ends('id: 1\ndata: a\n\nid: 2\ndata: half'),
      breaks('id: 2\ndata: b\n\nid: 3\n\nid: 4\nevent: ping\ndata:\n\n'),
      streams(`id: 5\ndata: c\n\n${DONE}`),
    )
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual(completed)
    expect(datas(tail.stored)).toEqual(['a', 'b', 'c', '{}'])
    expect(agent.requests.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '1', '4'])
    expect(tail.states).toEqual([
      'connecting',
      'connected',
      'connecting: the agent closed the stream',
      'connected',
      expect.stringMatching(/^connecting: the stream was cut: (ECONNRESET|UND_ERR_SOCKET)$/),
      'connected',
    ])
  })

  test('what is sent again is not stored again', async () => {
    const all = 'data: a\n\ndata: b\n\n'
    const agent = await testAgent(ends(all), ends(`${all}data: c\n\n`), streams(`${all}data: c\n\ndata: d\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['a', 'b', 'c', 'd', '{}'])
  })

  test('a hole is one gap, with the last ordinal', async () => {
    const agent = await testAgent(ends('data: a\n\n'), ends(''), streams(`data: b\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url, { resume: 'none' }))
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['a', gapOf('no-replay'), 'b', '{}'])
    expect(tail.stored[1]).toMatchObject({ type: 'stream.gap', name: 'stream.gap', ordinal: 1, upstreamId: null })
  })

  test('a reconnect that ends or fails the job is no gap', async () => {
    for (const status of [204, 400]) {
      const agent = await testAgent(ends('data: a\n\n'), says(status))
      const tail = testTail(testSpec(agent.url, { resume: 'none' }))
      await tail.outcome
      expect(datas(tail.stored)).toEqual(['a'])
    }
  })

  test('an event that may be new does not wait for the next in a quiet stream', { timeout: 15_000 }, async () => {
    const agent = await testAgent(ends('data: tick\n\nid: 1\ndata: a\n\n'), streams('data: tick\n\n'))
    const tail = testTail(testSpec(agent.url))
    await expect.poll(() => datas(tail.stored), { timeout: 10_000 }).toEqual(['tick', 'a', 'tick'])
  })
})

describe('a new owner', () => {
  const kept: readonly KeptEvent[] = [
    { type: 'message', name: null, data: 'a', upstreamId: null, upstreamOffset: null, ordinal: 1 },
    { type: 'output', name: 'output', data: 'b', upstreamId: null, upstreamOffset: null, ordinal: 2 },
  ]
  const cursor: JobCursor = { ...FRESH_CURSOR, ordinal: 2 }

  test('compares a replay with the log', async () => {
    const agent = await testAgent(streams(`data: a\n\nevent: output\ndata: b\n\ndata: c\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url), { cursor, readKept: async (each) => kept.forEach(each) })
    await tail.outcome
    expect(tail.stored).toMatchObject([
      { data: 'c', ordinal: 3 },
      { type: 'done', ordinal: 4 },
    ])
  })

  test('lets the agent wait while the log cannot be read', async () => {
    const agent = await testAgent(streams(`data: a\n\nevent: output\ndata: b\n\n${DONE}`))
    let reads = 0
    const readKept = async (each: (event: KeptEvent) => void) => {
      if (++reads < 3) throw new BatonError('unavailable', 'no leader')
      kept.forEach(each)
    }
    const tail = testTail(testSpec(agent.url), { cursor, readKept })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['{}'])
    expect(agent.requests).toHaveLength(1)
  })

  test('reads again what a replica that is behind did not have', async () => {
    const agent = await testAgent(streams(`data: a\n\nevent: output\ndata: b\n\n${DONE}`))
    let reads = 0
    const readKept = async (each: (event: KeptEvent) => void) => kept.slice(0, ++reads).forEach(each)
    const tail = testTail(testSpec(agent.url), { cursor, readKept })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['{}'])
    expect(reads).toBe(2)
  })

  test('gives the run up when the log is not its own any more', async () => {
    const agent = await testAgent(streams(DONE))
    const lost = new BatonError('lost', 'a newer owner')
    await expect(testTail(testSpec(agent.url), { cursor, readKept: () => Promise.reject(lost) }).outcome).rejects.toBe(
      lost,
    )
  })

  test('reads nothing where the header is trusted and nothing has to be compared', async () => {
    const agent = await testAgent(streams(`id: 8\ndata: c\n\n${DONE}`))
    const trusted = { ...cursor, upstreamId: '7', upstreamOffset: 0 }
    const tail = testTail(testSpec(agent.url, { resume: 'last-event-id' }), { cursor: trusted })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['c', '{}'])
    expect(agent.requests[0]?.headers['last-event-id']).toBe('7')
  })
})

describe('what is not stored', () => {
  test('keepalives, but they are signs of life', async () => {
    let alive = 0
    const agent = await testAgent((response) => {
      streams(': hello\n\n')(response, response.req)
      setTimeout(
        () => response.write('event: heartbeat\ndata: x\n\nevent: keepalive\ndata: y\n\nevent: ping\ndata: z\n\n'),
        20,
      )
      setTimeout(() => response.write(DONE), 60)
    })
    const tail = testTail(testSpec(agent.url), { onAlive: () => alive++ })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['{}'])
    expect(alive).toBeGreaterThanOrEqual(3)
  })

  test('an event over the limit: a gap of one in its place', async () => {
    const agent = await testAgent(streams(`data: a\n\nid: 2\ndata: ${'x'.repeat(101)}\n\ndata: b\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url), { upstream: testUpstream({ maxEventBytes: 100 }) })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['a', gapOf('too-large', 1), 'b', '{}'])
    expect(tail.stored.map(({ ordinal, upstreamId, upstreamOffset }) => [ordinal, upstreamId, upstreamOffset])).toEqual(
      [
        [1, null, null],
        [1, '2', 0],
        [2, '2', 1],
        [3, '2', 2],
      ],
    )
  })

  test('an event whose name is too long for a header: a gap of one', async () => {
    const agent = await testAgent(
      streams(`event: ${'č'.repeat(200)}\ndata: a\n\nevent: ${'n'.repeat(1024)}\ndata: b\n\n${DONE}`),
    )
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(datas(tail.stored)).toEqual([gapOf('too-large', 1), 'b', '{}'])
  })

  test('an id that is too long: the event stands under the one before', async () => {
    const agent = await testAgent(streams(`id: 1\ndata: a\n\nid: ${'9'.repeat(1025)}\ndata: b\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.stored.map(({ upstreamId, upstreamOffset }) => [upstreamId, upstreamOffset])).toEqual([
      ['1', 0],
      ['1', 1],
      ['1', 2],
    ])
  })

  test('a type in the data that is too long for a header: the event is a message', async () => {
    const data = JSON.stringify({ type: 't'.repeat(1025) })
    const agent = await testAgent(streams(`data: ${data}\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.stored[0]).toMatchObject({ type: 'message', name: null, data })
  })

  test('names that are Baton’s own: the agent’s are moved aside', async () => {
    const agent = await testAgent(streams(`event: stream.end\ndata: a\n\ndata: {"type":"stream.gap"}\n\n${DONE}`))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.stored.map(({ type, name }) => [type, name])).toEqual([
      ['agent.stream.end', 'agent.stream.end'],
      ['agent.stream.gap', null],
      ['done', 'done'],
    ])
  })
})

describe('the tail', () => {
  test('stops reading while the log takes nothing, and misses nothing of it', async () => {
    const chunk = Buffer.from(`data: ${'x'.repeat(10_000)}\n\n`.repeat(100))
    let sentBytes = 0
    const agent = await testAgent((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const send = (): void => {
        while (sentBytes < 60_000_000) {
          sentBytes += chunk.length
          if (!response.write(chunk)) return void response.once('drain', send)
        }
        response.end(DONE)
      }
      send()
    })
    const gate = Promise.withResolvers<void>()
    const stored: string[] = []
    const store = async (event: JobEvent) => {
      stored.push(event.data)
      if (stored.length === 50) await gate.promise
    }
    const tail = testTail(testSpec(agent.url), { store })
    await expect.poll(() => stored.length).toBe(50)
    let before = -1
    await expect
      .poll(
        () => {
          const same = sentBytes === before
          before = sentBytes
          return same
        },
        { interval: 300, timeout: 20_000 },
      )
      .toBe(true)
    expect(sentBytes).toBeLessThan(40_000_000)
    gate.resolve()
    expect(await tail.outcome).toEqual(completed)
    expect(stored.length).toBe((sentBytes / chunk.length) * 100 + 1)
  })

  test('ends with the reason of its signal, and lets the agent go', async () => {
    const agent = await testAgent(streams('data: a\n\n'))
    const tail = testTail(testSpec(agent.url))
    await expect.poll(() => tail.stored.length).toBe(1)
    const reason = new Error('released')
    tail.stop.abort(reason)
    await expect(tail.outcome).rejects.toBe(reason)
    await expect.poll(agent.sockets).toBe(0)
  })

  test('ends in a wait, too', async () => {
    const agent = await testAgent(says(503, { 'retry-after': '20' }))
    const tail = testTail(testSpec(agent.url))
    await expect.poll(() => tail.failures).toEqual([1])
    tail.stop.abort(new Error('released'))
    await expect(tail.outcome).rejects.toThrow('released')
  })

  test('ends with what the log says when it may write no more', async () => {
    const agent = await testAgent(streams('data: a\n\n'))
    const lost = new BatonError('lost', 'a newer owner')
    await expect(testTail(testSpec(agent.url), { store: () => Promise.reject(lost) }).outcome).rejects.toBe(lost)
    await expect.poll(agent.sockets).toBe(0)
  })

  test('leaves no listener on its signal, however often it comes back', async () => {
    let connections = 0
    const agent = await testAgent((response) =>
      ends(connections++ < 8 ? `id: ${connections}\ndata: a\n\n` : DONE)(response, response.req),
    )
    const tail = testTail(testSpec(agent.url))
    const counts: number[] = []
    const counting = setInterval(() => counts.push(getEventListeners(tail.stop.signal, 'abort').length), 5)
    await tail.outcome
    clearInterval(counting)
    expect(Math.max(...counts)).toBeLessThanOrEqual(1)
    expect(getEventListeners(tail.stop.signal, 'abort')).toHaveLength(0)
  })

  test('opens no address that is not allowed, literal or by name', async () => {
    const agent = await testAgent(streams(DONE))
    const { port } = new URL(agent.url)
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '0x7f.1', '2130706433']) {
      const tail = testTail(testSpec(`http://${host}:${port}/`), {
        upstream: testUpstream({ allow: [] }),
        doubtfulSinceMs: Date.now() - 30_000,
      })
      expect(await tail.outcome).toMatchObject({
        reason: 'failed',
        detail: expect.stringMatching(/is not a public address, and BATON_UPSTREAM_ALLOW does not list it$/),
      })
    }
    expect(agent.requests).toHaveLength(0)
    const named = testTail(testSpec(`http://localhost:${port}/`), { upstream: testUpstream({ allow: ['localhost'] }) })
    expect(await named.outcome).toEqual(completed)
  })
})
