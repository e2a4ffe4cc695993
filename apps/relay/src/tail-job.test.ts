import { getEventListeners } from 'node:events'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { BatonError } from '@baton/core/errors'
import type { JobEvent } from '@baton/core/event'
import { FRESH_CURSOR, type JobCursor } from '@baton/core/records'
import { retryAfterMs } from './connect-upstream.ts'
import type { KeptEvent } from './tail-job.ts'
import { breaks, DONE, ends, says, streams, testAgent, testSpec, testTail, testUpstream } from './test-agent.ts'

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
    const tail = testTail(testSpec(agent.url), { cursor, readKept: async () => kept })
    await tail.outcome
    expect(tail.stored).toMatchObject([
      { data: 'c', ordinal: 3 },
      { type: 'done', ordinal: 4 },
    ])
  })

  test('lets the agent wait while the log cannot be read', async () => {
    const agent = await testAgent(streams(`data: a\n\nevent: output\ndata: b\n\n${DONE}`))
    let reads = 0
    const readKept = async () => {
      if (++reads < 3) throw new BatonError('unavailable', 'no leader')
      return kept
    }
    const tail = testTail(testSpec(agent.url), { cursor, readKept })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['{}'])
    expect(agent.requests).toHaveLength(1)
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

describe('an answer', () => {
  test.each([408, 425, 429, 500, 502, 503])('%i is tried again', async (status) => {
    const agent = await testAgent(says(status), streams(DONE))
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual(completed)
    expect(tail.states).toEqual(['connecting', `failing: answered ${status}`, 'connected'])
    expect(tail.failures).toEqual([1, 0])
  })

  test.each([204, 410])('%i completes the job', async (status) => {
    const agent = await testAgent(says(status))
    expect(await testTail(testSpec(agent.url)).outcome).toEqual({ reason: 'completed', detail: `answered ${status}` })
  })

  test.each([400, 402, 405, 406, 409, 418, 206, 300, 304])('%i fails the job at once', async (status) => {
    const agent = await testAgent(says(status))
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual({ reason: 'failed', detail: `answered ${status}` })
    expect(agent.requests).toHaveLength(1)
  })

  const html = says(200, { 'content-type': 'text/html' })
  test.each([
    ['401', says(401), 'answered 401'],
    ['403', says(403), 'answered 403'],
    ['404', says(404), 'answered 404'],
    ['another type', html, 'answered 200 with type text/html'],
    ['no type', says(200), 'answered 200 with no content type'],
  ])('of %s is tried again, as deploys answer so', async (_, answer, reason) => {
    const agent = await testAgent(answer, answer, streams(DONE))
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual(completed)
    expect(tail.states[1]).toBe(`failing: ${reason}`)
  })

  test.each([
    ['404', says(404), 'answered 404'],
    ['another type', html, 'answered 200 with type text/html'],
  ])('of %s for 30 s, over owners, fails the job', async (_, answer, detail) => {
    const agent = await testAgent(answer)
    const tail = testTail(testSpec(agent.url), { failingSinceMs: Date.now() - 29_900 })
    expect(await tail.outcome).toEqual({ reason: 'failed', detail })
    expect(agent.requests).toHaveLength(2)
  })

  test('of 404 is not final when the 30 s were something else', async () => {
    const agent = await testAgent(says(503), says(404), streams(DONE))
    const tail = testTail(testSpec(agent.url), { failingSinceMs: Date.now() - 60_000 })
    expect(await tail.outcome).toEqual(completed)
  })

  test('with parameters of the type is a stream', async () => {
    const agent = await testAgent((response) => {
      response
        .writeHead(200, { 'content-type': 'Text/Event-Stream;x bogus; charset=windows-1252' })
        .end(`data: ok…\n\n${DONE}`)
    })
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['ok…', '{}'])
  })

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('compressed with %s all the same is read', async (encoding, compress) => {
    const agent = await testAgent((response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': encoding })
        .end(compress(`data: a\n\n${DONE}`))
    })
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['a', '{}'])
  })

  test('whose compressed body is broken is a cut', async () => {
    const agent = await testAgent((response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
        .end('not gzip at all')
    }, streams(DONE))
    expect(await testTail(testSpec(agent.url)).outcome).toEqual(completed)
  })

  test('in an unknown encoding is said to be so', async () => {
    const agent = await testAgent((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'zip' }).end('?')
    }, streams(DONE))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.states[1]).toBe('failing: answered with an unknown content encoding: zip')
  })
})

describe('a redirect', () => {
  const to = (location: string, status = 307) => says(status, { location })

  test.each([301, 302, 303, 307, 308])('%i within the origin is followed, each time anew', async (status) => {
    const agent = await testAgent(
      to('/other?x=1', status),
      ends('data: a\n\n'),
      to('/other?x=1', status),
      streams(`data: a\n\n${DONE}`),
    )
    await testTail(testSpec(agent.url)).outcome
    expect(agent.requests.map(({ url }) => url)).toEqual(['/stream?job=1', '/other?x=1', '/stream?job=1', '/other?x=1'])
    expect(agent.requests.every(({ method }) => method === 'GET')).toBe(true)
  })

  test.each([
    ['to another origin', 'http://127.0.0.1:1/x', 'redirected to another origin: http://127.0.0.1:1'],
    ['to another scheme', 'https://127.0.0.1/x', 'redirected to another origin: https://127.0.0.1'],
    ['to no address', 'http://', 'answered 307 without a usable Location'],
    ['to nothing', '', 'answered 307 without a usable Location'],
    ['in a circle', '/stream?job=1', 'more than 5 redirects'],
  ])('%s fails the job', async (_, location, detail) => {
    const agent = await testAgent(to(location))
    expect(await testTail(testSpec(agent.url)).outcome).toEqual({ reason: 'failed', detail })
    expect(agent.requests.length).toBeLessThanOrEqual(6)
  })
})

describe('waits', () => {
  test('no agent at all is tried again, and counted', async () => {
    const agent = await testAgent(
      (response) => void response.destroy(),
      (response) => void response.destroy(),
      streams(DONE),
    )
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.failures).toEqual([1, 2, 0])
    expect(tail.states[1]).toBe('failing: no connection: UND_ERR_SOCKET')
  })

  test('Retry-After is seconds or a date', () => {
    const nowMs = Date.parse('2026-01-01T00:00:00Z')
    expect(retryAfterMs('120', nowMs)).toBe(120_000)
    expect(retryAfterMs('Thu, 01 Jan 2026 00:00:07 GMT', nowMs)).toBe(7000)
    expect(retryAfterMs('Thu, 01 Jan 2025 00:00:07 GMT', nowMs)).toBe(0)
    expect([retryAfterMs('soon', nowMs), retryAfterMs('', nowMs), retryAfterMs(undefined, nowMs)]).toEqual([
      null,
      null,
      null,
    ])
  })

  test('Retry-After and retry: are floors', async () => {
    const agent = await testAgent(says(503, { 'retry-after': '1' }), ends('retry: 700\ndata: a\n\n'), streams(DONE))
    const atMs: number[] = []
    const tail = testTail(testSpec(agent.url), { onState: () => atMs.push(performance.now()) })
    await tail.outcome
    const [, failing = 0, connected = 0, cut = 0, again = 0] = atMs
    expect(connected - failing).toBeGreaterThanOrEqual(990)
    expect(again - cut).toBeGreaterThanOrEqual(690)
  })

  test('after too long without a connection the job has failed, and the log says that something is missing', async () => {
    const agent = await testAgent((response) => void response.destroy())
    const tail = testTail(testSpec(agent.url), { upstream: testUpstream({ giveUpMs: 600 }) })
    expect(await tail.outcome).toEqual({ reason: 'failed', detail: 'not reached for 1 s' })
    expect(datas(tail.stored)).toEqual([gapOf('unreachable')])
    expect(agent.requests.length).toBeGreaterThanOrEqual(2)
  })

  test('that time goes on over owners', async () => {
    const agent = await testAgent((response) => void response.destroy())
    const options = { upstream: testUpstream({ giveUpMs: 60_000 }), failingSinceMs: Date.now() - 60_000 }
    expect(await testTail(testSpec(agent.url), options).outcome).toMatchObject({ reason: 'failed' })
    expect(agent.requests).toHaveLength(1)
  })

  test('a silent agent is cut and asked again', async () => {
    const agent = await testAgent(streams('id: 1\ndata: a\n\n'), streams(DONE))
    const tail = testTail(testSpec(agent.url), { upstream: testUpstream({ silenceMs: 300 }) })
    await tail.outcome
    expect(datas(tail.stored)).toEqual(['a', '{}'])
    expect(agent.requests[1]?.headers['last-event-id']).toBe('1')
    expect(tail.states[2]).toBe('connecting: silent for 0.3 s')
  })

  test('an agent that stops sending keepalives is cut sooner', async () => {
    const agent = await testAgent((response) => {
      streams(': one\n\n')(response, response.req)
      setTimeout(() => response.write('event: ping\ndata:\n\n'), 50)
    }, streams(DONE))
    const startedMs = performance.now()
    const tail = testTail(testSpec(agent.url), { upstream: testUpstream({ silenceMs: 20_000 }) })
    await tail.outcome
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    expect(datas(tail.stored)).toEqual(['{}'])
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
        failingSinceMs: Date.now() - 30_000,
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
