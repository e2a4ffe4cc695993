import { createConnection, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { STREAM } from '@baton/store/names'
import { readStream } from '@baton/store/read-log'
import { eventually, steadily } from '../kit/eventually.ts'
import { followRun, indexes, range, type FollowOptions } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import type { SseClient } from '../kit/sse-client.ts'
import { endEvent, runEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** How streams behave towards clients of every kind: the slow, the old, the many, and those that only ask. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url))
})

const follow = (run: string, { at = edge, ...rest }: FollowOptions & { at?: LocalEdge } = {}): SseClient =>
  followRun(at, run, rest)

/** A bare connection: what it sends and what it gets, to the byte. */
class Wire {
  readonly socket: Socket
  text = ''
  ended = false

  constructor(at: LocalEdge, request: string, options: { reading?: boolean } = {}) {
    this.socket = createConnection({ port: at.port, host: '127.0.0.1' })
    this.socket.on('error', () => undefined)
    this.socket.on('close', () => (this.ended = true))
    this.socket.write(request)
    if (options.reading === false) this.socket.pause()
    else this.socket.on('data', (chunk) => (this.text += chunk.toString('latin1')))
  }

  [Symbol.dispose](): void {
    this.socket.destroy()
  }
}

const get = (path: string, version = '1.1', more = ''): string =>
  `GET ${path} HTTP/${version}\r\nHost: edge\r\nAccept: text/event-stream\r\n${more}\r\n`

describe('an answer that is no stream', () => {
  test('is a problem document, also for what nobody foresaw', async () => {
    const ask = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(`${edge.url}${path}`, init)
      expect(response.headers.get('content-type')).toBe('application/problem+json')
      const body = (await response.json()) as { status: number; title: string; detail: string }
      expect(body.status).toBe(response.status)
      return { ...body, allow: response.headers.get('allow') }
    }
    await writeRange(log.nats, 'asked', 1, 1)
    expect(await ask('/nowhere')).toMatchObject({ status: 404 })
    expect(await ask('/runs/nobody/events')).toMatchObject({ status: 404 })
    expect(await ask('/runs/events')).toMatchObject({ status: 400 })
    expect(await ask('/runs/not%20an%20id/events')).toMatchObject({ status: 404 })
    expect(await ask('/runs/asked/events', { method: 'DELETE' })).toMatchObject({
      status: 405,
      allow: 'GET, HEAD, OPTIONS',
    })
    expect(await ask('/runs', { method: 'PUT' })).toMatchObject({ status: 405, allow: 'GET, HEAD, OPTIONS, POST' })
    // There it streams, and there it is a topic like any other.
    expect(await ask('/topics/events', { method: 'PUT' })).toMatchObject({ allow: 'GET, HEAD, OPTIONS, POST' })
    // No body, and no word of one.
    expect(await ask('/runs', { method: 'DELETE' })).toMatchObject({ status: 405 })
    expect(await ask('/runs/asked/events', { headers: { accept: 'application/json' } })).toMatchObject({ status: 406 })
    expect(await ask('/runs/asked/events', { headers: { accept: 'text/event-stream;q=0' } })).toMatchObject({
      status: 406,
    })
    for (const query of ['from=', 'from=soon', 'from=--1', 'format=xml']) {
      expect(await ask(`/runs/asked/events?${query}`)).toMatchObject({ status: 400 })
    }
    for (const query of ['limit=0', 'limit=many', 'from=soon', 'wait=1000']) {
      expect(await ask(`/runs/asked/history?${query}`)).toMatchObject({ status: 400 })
    }
    expect(await ask('/runs?limit=-1')).toMatchObject({ status: 400 })
    expect(await ask('/runs?label=none')).toMatchObject({ status: 400 })
  })

  test('is a problem where from, format or limit is malformed, whatever the route would make of it', async () => {
    await writeRange(log.nats, 'odd', 1, 1)
    const routes = [
      '/runs?',
      '/runs/odd/events?',
      '/runs/events?run=odd&',
      '/runs/odd/history?',
      '/runs/odd?',
      '/topics/events?topic=a&',
      '/topics/a?',
    ]
    for (const route of routes) {
      for (const query of [
        'from=',
        'from=soon',
        'format=xml',
        'limit=0',
        'limit=-1',
        'limit=many',
        'limit=1.5',
        'limit=',
      ]) {
        const response = await fetch(`${edge.url}${route}${query}`)
        await response.body?.cancel()
        expect([route, query, response.status]).toEqual([route, query, 400])
      }
    }
  })

  test('is a problem also for a request that makes no URL', async () => {
    using wire = new Wire(edge, 'GET /runs/r1 HTTP/1.1\r\nHost: not a host\r\nConnection: close\r\n\r\n')
    await eventually('it is answered', () => wire.ended)
    expect(wire.text).toMatch(/^HTTP\/1\.1 400 /)
    expect(wire.text).toContain('application/problem+json')
    expect((await fetch(`${edge.url}/runs/%zz/events`)).status).toBe(404)
  })

  test.each([
    ['bytes that are no request', 'GARBAGE\r\n\r\n', 400],
    ['headers without an end', `GET /runs HTTP/1.1\r\nHost: edge\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    [
      'a body in chunks that are none',
      'POST /topics/a HTTP/1.1\r\nHost: edge\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
    ],
    ['no Host in HTTP/1.1', 'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['what nobody can expect', 'GET /livez HTTP/1.1\r\nHost: edge\r\nExpect: x\r\nConnection: close\r\n\r\n', 417],
  ])('is a problem also for %s', async (_, bytes, status) => {
    using wire = new Wire(edge, bytes)
    await eventually('it is answered', () => wire.ended)
    expect(wire.text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(JSON.parse(wire.text.split('\r\n\r\n')[1] ?? '')).toMatchObject({ type: 'about:blank', status })
  })

  test('is none for what comes behind a whole request: that one waits for its own', async () => {
    const last = await writeRange(log.nats, 'asked-first', 1, 1)
    const polls = edge.edge.polls
    const first = `GET /runs/asked-first/history?after=${last}-1&wait=20 HTTP/1.1\r\nHost: edge\r\n\r\n`
    using wire = new Wire(edge, first)
    await eventually('it waits', () => edge.edge.polls > polls)
    wire.socket.write('GARBAGE\r\n\r\n')
    await eventually('the connection is closed', () => wire.ended)
    expect(wire.text).toBe('')
  })

  test('needs no Host from HTTP/1.0, as probes send it', async () => {
    using wire = new Wire(edge, 'GET /livez HTTP/1.0\r\n\r\n')
    await eventually('it is answered', () => wire.ended)
    expect(wire.text).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('HEAD has the headers of a stream and leaves nothing behind', async () => {
    await writeRange(log.nats, 'head', 1, 1)
    for (let round = 0; round < 50; round++) {
      const response = await fetch(`${edge.url}/runs/head/events`, { method: 'HEAD' })
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
      expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
    }
    expect((await fetch(`${edge.url}/runs/nobody/events`, { method: 'HEAD' })).status).toBe(404)
    expect(edge.edge.clients.size).toBe(0)
  })
})

describe('the wire', () => {
  test('HTTP/1.1 gets chunks and can use its connection again', async () => {
    await writeEvents(log.nats, 'chunks', [runEvent(1, { data: 'é' }), endEvent(2)])
    using wire = new Wire(edge, get('/runs/chunks/events') + get('/runs/chunks/events?from=now'))
    await eventually('both answers are whole', () => wire.text.split('\r\n0\r\n\r\n').length === 3)
    const [first = '', second = ''] = wire.text.split('\r\n0\r\n\r\n')
    expect(first).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(first).toMatch(/\r\nTransfer-Encoding: chunked\r\n/)
    expect(first).toContain('data: Ã©\n\n\r\n')
    // The pipelined one was decided on only when its turn came.
    expect(second).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(second.match(/event: stream\.end/g)).toHaveLength(1)
  })

  test('a pipelined request behind a live stream waits for its turn, and for no more than a few', async () => {
    await writeRange(log.nats, 'turn', 1, 1)
    using wire = new Wire(edge, get('/runs/turn/events') + get('/runs/turn/events'))
    await eventually('the first is served', () => wire.text.includes('data: event 1'))
    await steadily('only one client is there', () => edge.edge.clients.size === 1, 200)
    await writeEvents(log.nats, 'turn', [endEvent(2)])
    await eventually('the second is served too', () => wire.text.match(/event: stream\.end/g)?.length === 2)
    await writeRange(log.nats, 'crowd', 1, 1)
    using crowd = new Wire(edge, get('/runs/crowd/events').repeat(200))
    await eventually('the connection is closed', () => crowd.ended)
  })

  test('HTTP/1.0 gets the blocks alone, and the end of the connection', async () => {
    await writeEvents(log.nats, 'plain', [runEvent(1), endEvent(2)])
    using wire = new Wire(edge, get('/runs/plain/events', '1.0'))
    await eventually('the connection ends', () => wire.ended)
    const [head = '', body = ''] = wire.text.split('\r\n\r\n')
    expect(head).not.toMatch(/transfer-encoding/i)
    expect(body).toMatch(/^retry: \d+\n: baton\nid: \d+-0\nevent: stream\.open\n/)
    expect(body).toMatch(/\ndata: \{"reason":"completed"\}\n\n$/)
    expect(body).not.toContain('\r')
  })

  test('CORS: listed origins may read, no other may write, a stream has the headers too', async () => {
    await using at = await LocalEdge.start(log.server.url, { corsOrigins: ['https://good.example'] })
    const from = (origin: string, init: RequestInit = {}): RequestInit => ({ ...init, headers: { origin } })
    const preflight = await fetch(`${at.url}/runs/cors/events`, from('https://good.example', { method: 'OPTIONS' }))
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://good.example')
    expect(preflight.headers.get('access-control-allow-headers')).toContain('Last-Event-ID')
    await writeEvents(log.nats, 'cors', [endEvent(1)])
    const stream = await fetch(`${at.url}/runs/cors/events`, from('https://good.example'))
    expect(stream.headers.get('access-control-allow-origin')).toBe('https://good.example')
    expect(stream.headers.get('vary')).toBe('Origin')
    expect(await stream.text()).toContain('stream.end')
    const other = await fetch(`${at.url}/runs/cors/events`, from('https://evil.example'))
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
    await other.body?.cancel()
    const post = { method: 'POST', body: JSON.stringify({ run: 'forged', url: 'http://127.0.0.1:9/' }) }
    expect((await fetch(`${at.url}/runs`, from('https://evil.example', post))).status).toBe(403)
    expect((await fetch(`${at.url}/runs/forged`)).status).toBe(404)
  })
})

describe('what a client asks to see', () => {
  test('types: only these, and Baton’s own; the position moves with the heartbeat', async () => {
    await using at = await LocalEdge.start(log.server.url, { heartbeatMs: 100 })
    const typed = (index: number, type: string) => runEvent(index, { type, name: type })
    await writeEvents(log.nats, 'typed', [typed(1, 'a'), typed(2, 'b'), typed(3, 'c'), typed(4, 'a')])
    await using client = follow('typed', { at, query: '?types=a,c' })
    await client.untilEvents(3)
    expect(indexes(client)).toEqual([1, 3, 4])
    const last = await writeEvents(log.nats, 'typed', [typed(5, 'b'), typed(6, 'b')])
    const moved = await client.until('its new position', (frame) => frame.event === 'stream.position')
    expect(moved).toMatchObject({ id: `${last}-6`, data: '{}' })
    await client.until('a bare heartbeat', (frame) => frame.comments.includes('heartbeat'))
    await writeEvents(log.nats, 'typed', [typed(7, 'b'), endEvent(8)])
    await client.done
    expect(indexes(client).at(-1)).toBe(8)
  })

  test('an envelope has all that is known', async () => {
    await writeEvents(log.nats, 'enveloped', [runEvent(1, { data: 'a\nb' }), endEvent(2)])
    await using client = follow('enveloped', { query: '?format=envelope' })
    await client.done
    expect(client.events[0]?.event).toBeNull()
    expect(JSON.parse(client.events[0]?.data ?? '')).toMatchObject({
      run: 'enveloped',
      job: 'main',
      data: 'a\nb',
      id: 'u-1',
    })
    expect(client.events[1]?.event).toBe('stream.end')
  })
})

describe('limits', () => {
  test('too many opens: an EventSource is told in a stream, others by the status', async () => {
    await using at = await LocalEdge.start(log.server.url, { opensPerClient: 2 })
    await writeRange(log.nats, 'limited', 1, 1)
    const url = `${at.url}/runs/limited/events`
    await using one = follow('limited', { at })
    await using two = follow('limited', { at })
    await Promise.all([one.untilEvents(1), two.untilEvents(1)])
    const busy = await fetch(url, { headers: { accept: 'text/event-stream', 'last-event-id': '1-1' } })
    expect(busy.status).toBe(200)
    const text = await busy.text()
    expect(text).toMatch(
      /^retry: \d+\n: baton\nevent: stream\.busy\ndata: \{"reason":"limit","retryAfterMs":\d+\}\n\n$/,
    )
    const told = await fetch(url, { headers: { accept: 'text/event-stream', 'baton-client': 'test' } })
    expect(told.status).toBe(429)
    expect(Number(told.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await told.json()).toMatchObject({ status: 429, code: 'limit' })
  })

  test('too many streams open', async () => {
    await using at = await LocalEdge.start(log.server.url, { maxConnections: 1 })
    await writeRange(log.nats, 'full', 1, 1)
    await using one = follow('full', { at })
    await one.untilEvents(1)
    expect((await fetch(`${at.url}/runs/full/events`)).status).toBe(429)
  })

  test('an old stream is asked to come back, and goes on where it was', async () => {
    await using at = await LocalEdge.start(log.server.url, { maxAgeMs: 300, heartbeatMs: 100 })
    await writeRange(log.nats, 'old', 1, 3)
    await using client = follow('old', { at, reconnects: true })
    const bye = await client.until('a goodbye', (frame) => frame.event === 'stream.bye')
    expect(bye).toMatchObject({ data: '{"reason":"max-age"}', id: null })
    expect(bye.retryMs).toBeGreaterThanOrEqual(250)
    await writeRange(log.nats, 'old', 4, 5)
    await client.untilEvents(5)
    expect(indexes(client)).toEqual([1, 2, 3, 4, 5])
  })

  test('draining: goodbye to all, spread; new ones are sent away', async () => {
    await using at = await LocalEdge.start(log.server.url)
    await writeRange(log.nats, 'drained', 1, 2)
    const clients = Array.from({ length: 20 }, () => follow('drained', { at }))
    for (const client of clients) await client.untilEvents(2)
    at.edge.beginDrain()
    expect((await fetch(`${at.url}/readyz`)).status).toBe(503)
    expect((await fetch(`${at.url}/livez`)).status).toBe(200)
    const late = await fetch(`${at.url}/runs/drained/events`, { headers: { accept: 'text/event-stream' } })
    expect(await late.text()).toContain('"reason":"draining"')
    await at.edge.sayGoodbye(1000)
    for (const client of clients) {
      await client.done
      expect(client.frames.at(-1)).toMatchObject({ event: 'stream.bye', data: '{"reason":"drain"}' })
    }
    expect(at.edge.clients.size).toBe(0)
  })
})

describe('a client that does not read', () => {
  const big = (from: number, to: number) =>
    range(from, to).map((index) => runEvent(index, { data: 'x'.repeat(20_000) }))

  test('costs one socket buffer, disturbs nobody, and comes back whole', async () => {
    const bufferBytes = 64 * 1024
    await using at = await LocalEdge.start(log.server.url, {
      clientBufferBytes: bufferBytes,
      stallMs: 1000,
      ringsBytes: 1,
    })
    await writeEvents(log.nats, 'stalled', big(1, 1))
    using stalled = new Wire(at, get('/runs/stalled/events'), { reading: false })
    await using reading = follow('stalled', { at })
    await reading.untilEvents(1)
    await eventually('both are there', () => at.edge.clients.size === 2)
    await writeEvents(log.nats, 'stalled', big(2, 800))
    await reading.untilEvents(800)
    expect(indexes(reading)).toEqual(range(1, 800))
    await eventually('the stalled one is closed', () => at.edge.clients.size === 1, { withinMs: 10_000 })
    expect(at.mostPendingBytes).toBeLessThanOrEqual(2 * bufferBytes + 4096)
    stalled.socket.destroy()
    await using back = follow('stalled', { at, lastEventId: reading.events[0]?.id ?? '' })
    await back.untilEvents(799)
    expect(indexes(back)).toEqual(range(2, 800))
  })

  test('but reads slowly stays, and misses nothing', async () => {
    await using at = await LocalEdge.start(log.server.url, {
      clientBufferBytes: 64 * 1024,
      stallMs: 2000,
      ringsBytes: 1,
    })
    await writeEvents(log.nats, 'slow', big(1, 1))
    await using slow = follow('slow', { at, stall: { everyFrames: 5, ms: 50 } })
    await using quick = follow('slow', { at })
    await slow.untilEvents(1)
    await writeEvents(log.nats, 'slow', big(2, 300))
    await quick.untilEvents(300)
    await writeEvents(log.nats, 'slow', [endEvent(301)])
    await slow.done
    expect(slow.breach).toBeNull()
    expect(slow.openings).toHaveLength(1)
    expect(indexes(slow)).toEqual(range(1, 301))
  })
})

describe('NATS goes away', () => {
  test('streams stay open, new ones are told to wait, and nothing is lost when it is back', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url, { heartbeatMs: 100, checkMs: 300 })
    await writeRange(own.nats, 'away', 1, 3)
    await using client = follow('away', { at })
    await client.untilEvents(3)
    await own.server.kill()
    const beats = client.frames.length
    await eventually('it still gets heartbeats', () => client.frames.length > beats + 3)
    // A loss that all edges share does not take all of them away.
    expect((await fetch(`${at.url}/readyz`)).status).toBe(200)
    const busy = await fetch(`${at.url}/runs/else/events`, { headers: { accept: 'text/event-stream' } })
    expect(await busy.text()).toContain('"reason":"unavailable"')
    expect((await fetch(`${at.url}/runs/else/events`, { headers: { 'baton-client': 'x' } })).status).toBe(503)
    await using ringed = follow('away', { at, lastEventId: client.events[2]?.id ?? '' })
    await ringed.until('an open from the ring', (frame) => frame.event === 'stream.open')
    await own.server.start()
    await eventually('the log answers', () => readStream(own.nats))
    await writeRange(own.nats, 'away', 4, 50)
    await client.untilEvents(50)
    await ringed.untilEvents(47)
    expect(indexes(client)).toEqual(range(1, 50))
    expect(client.openings).toHaveLength(1)
  })
})

test('many that open a run at the same moment all get all of it', async () => {
  for (let round = 0; round < 20; round++) {
    const run = `at-once-${round}`
    await writeRange(log.nats, run, 1, 3)
    const clients = Array.from({ length: 20 }, () => follow(run))
    for (const client of clients) await client.untilEvents(3)
    for (const client of clients) await client.close()
  }
})

test('a thousand clients come and go, and nothing of them is left', async () => {
  await using at = await LocalEdge.start(log.server.url, { lingerMs: 300, ringsBytes: 1 })
  await writeRange(log.nats, 'crowded', 1, 50)
  const baseline = at.subscriptions
  const wires = Array.from({ length: 1000 }, (_, number) => {
    const run = number % 2 === 0 ? 'crowded' : `crowded-${number % 50}`
    const place = number % 3 === 0 ? '?from=start' : '?from=now'
    return new Wire(at, get(`/runs/${run}/events${place}`))
  })
  for (let number = 1; number < 50; number += 2) await writeRange(log.nats, `crowded-${number}`, 1, 2)
  await eventually('all are answered', () => wires.every((wire) => wire.text.includes('\r\n\r\n')), {
    withinMs: 20_000,
  })
  const served = wires.filter((wire) => wire.text.startsWith('HTTP/1.1 200'))
  expect(served.length).toBeGreaterThanOrEqual(500)
  await eventually('they are clients', () => at.edge.clients.size === served.length)
  await writeRange(log.nats, 'crowded', 51, 60)
  await eventually('all at the first run have the last event', () =>
    wires.every((wire, number) => number % 2 !== 0 || wire.text.includes('data: event 60\n')),
  )
  for (const wire of wires) wire.socket.destroy()
  await eventually('no client is left', () => at.edge.clients.size === 0)
  await eventually('no feed is left', () => at.edge.store.feeds.size === 0)
  expect(at.edge.store.feeds.replays).toBe(0)
  await eventually('no connection is left', async () => (await at.connections()) === 0)
  await eventually('no subscription is left', () => at.subscriptions <= baseline)
  await eventually('no consumer is left', async () => {
    return (await log.nats.jsm.streams.info(STREAM.runs)).state.consumer_count === 0
  })
})
