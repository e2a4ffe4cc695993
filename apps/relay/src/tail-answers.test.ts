import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { JobEvent } from '@baton/core/event'
import { retryAfterMs } from './connect-upstream.ts'
import { closeAll, DONE, ends, says, streams, testAgent, testSpec, testTail, testUpstream } from './test-agent.ts'

afterEach(closeAll)

const completed = { reason: 'completed', detail: null }
const datas = (events: readonly JobEvent[]): string[] => events.map(({ data }) => data)

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

  test.each([400, 402, 405, 406, 409, 418, 206, 300, 304, 600, 999])('%i fails the job at once', async (status) => {
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
    const tail = testTail(testSpec(agent.url), { doubtfulSinceMs: Date.now() - 28_000 })
    expect(await tail.outcome).toEqual({ reason: 'failed', detail })
    expect(agent.requests.length).toBeGreaterThanOrEqual(2)
  })

  test('of 404 that asks for a longer wait than is left of the 30 s is heard, and asked once more when they end', async () => {
    const agent = await testAgent(says(404, { 'retry-after': '25' }))
    const tail = testTail(testSpec(agent.url), { doubtfulSinceMs: Date.now() - 28_500 })
    expect(await tail.outcome).toEqual({ reason: 'failed', detail: 'answered 404' })
    expect(agent.requests.length).toBeLessThanOrEqual(3)
  })

  test('of 404 is not final when the 30 s were something else', async () => {
    const agent = await testAgent(says(503), says(404), streams(DONE))
    const tail = testTail(testSpec(agent.url), { failingSinceMs: Date.now() - 60_000 })
    expect(await tail.outcome).toEqual(completed)
  })

  test('of 404 is not final when another owner had failed for 30 s on something else', async () => {
    const agent = await testAgent(says(404), streams(DONE))
    const tail = testTail(testSpec(agent.url), { failingSinceMs: Date.now() - 60_000, doubtfulSinceMs: null })
    expect(await tail.outcome).toEqual(completed)
  })

  test('of 404 is no more final, and an agent no more given up, because the wall clock goes forward by an hour', async () => {
    const agent = await testAgent(says(404), says(404), streams(DONE))
    const tail = testTail(testSpec(agent.url), { upstream: testUpstream({ giveUpMs: 60_000 }) })
    await expect.poll(() => agent.requests.length).toBe(1)
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => new Date().getTime() + 3_600_000)
    expect(await tail.outcome.finally(() => clock.mockRestore())).toEqual(completed)
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

  test('with its type, or its encoding, said twice is what it says first', async () => {
    const agent = await testAgent((response) => {
      response.setHeader('content-type', ['text/event-stream', 'text/plain'])
      response.setHeader('content-encoding', ['identity', 'gzip']).end(DONE)
    })
    const tail = testTail(testSpec(agent.url))
    expect(await tail.outcome).toEqual(completed)
    const other = await testAgent((response) => {
      response.setHeader('content-type', ['text/html', 'text/event-stream']).end('?')
    }, streams(DONE))
    const doubtful = testTail(testSpec(other.url))
    await doubtful.outcome
    expect(doubtful.states[1]).toBe('failing: answered 200 with type text/html')
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

  test.each(['zip', 'constructor', '__proto__'])('in an unknown encoding (%s) is said to be so', async (encoding) => {
    const agent = await testAgent((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': encoding }).end('?')
    }, streams(DONE))
    const tail = testTail(testSpec(agent.url))
    await tail.outcome
    expect(tail.states[1]).toBe(`failing: answered with an unknown content encoding: ${encoding}`)
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
    expect(datas(tail.stored)).toEqual([JSON.stringify({ job: 'main', reason: 'unreachable', lost: null })])
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
