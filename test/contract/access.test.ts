import { beforeAll, describe, expect, test } from 'vitest'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { bearer, BY_SECRET, signToken, type Claims } from '../kit/issuer.ts'
import { indexOf, SseClient } from '../kit/sse-client.ts'
import { writeTopics } from '../kit/topics.ts'
import { endEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** Who may what, where tokens are asked for. */

const PAGE = 'https://app.example'

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(
    await LocalEdge.start(log.server.url, {
      corsOrigins: [PAGE],
      auth: BY_SECRET,
    }),
  )
})

const holding = (baton: unknown, claims: Claims = {}) => bearer({ baton, ...claims })
const ask = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<Response> =>
  fetch(`${edge.url}${path}`, { ...init, headers })
const status = async (path: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<number> => {
  const response = await ask(path, headers, init)
  await response.body?.cancel()
  return response.status
}
const registration = (run: string): RequestInit => ({
  method: 'POST',
  body: JSON.stringify({ run, url: 'http://127.0.0.1:9/' }),
})

type Document = { paths: Record<string, Record<string, { security?: object[] }>>; components: Record<string, object> }
const document = async (): Promise<Document> => (await (await ask('/openapi.json')).json()) as Document

describe('without a token', () => {
  test('only what is open to all answers; everything else is 401 with a challenge', async () => {
    for (const path of ['/', '/console.js', '/livez', '/readyz', '/openapi.json']) expect(await status(path)).toBe(200)
    for (const path of ['/runs', '/runs/a', '/runs/a/events', '/relays', '/metrics', '/topics/a', '/no/such/path']) {
      const response = await ask(path)
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer realm="baton"')
      expect(response.headers.get('content-type')).toBe('application/problem+json')
      expect(await response.json()).toMatchObject({ status: 401, code: 'unauthorized' })
    }
    expect(await status('/runs', {}, registration('anonymous'))).toBe(401)
  })

  test('an EventSource is told 401, which ends it', async () => {
    expect(await status('/runs/a/events', { accept: 'text/event-stream' })).toBe(401)
  })
})

test('a token that grants nothing opens no route there is: who adds one has to decide who may', async () => {
  const headers = await holding({})
  const allowed: string[] = []
  for (const [path, methods] of Object.entries((await document()).paths)) {
    for (const [method, { security }] of Object.entries(methods)) {
      if (security?.length === 0) continue
      const target = path.replace('{run}', 'some').replace('{topic}', 'some')
      const query = path === '/runs/events' ? '?run=some' : path === '/topics/events' ? '?topic=some' : ''
      const body = path === '/topics' ? { topic: 'some', data: 'x' } : { run: 'some', url: 'http://127.0.0.1:9/' }
      const init = method === 'post' ? { method: 'POST', body: JSON.stringify(body) } : {}
      if ((await status(`${target}${query}`, headers, init)) !== 403) allowed.push(`${method} ${path}`)
    }
  }
  // The list is empty, and the ticket opens nothing.
  expect(allowed).toEqual(['get /runs', 'post /tickets'])
  expect(await (await ask('/runs', headers)).json()).toEqual({ runs: [], next: null })
})

describe('grants', () => {
  beforeAll(async () => {
    for (const run of ['mine', 'theirs']) await writeEvents(log.nats, run, [endEvent(1)])
    const all = await holding({ manage: ['run:*'] })
    for (const run of ['listed-1', 'listed-2', 'other']) expect(await status('/runs', all, registration(run))).toBe(201)
  })

  test('a run is read by who may follow it', async () => {
    const headers = await holding({ subscribe: ['run:mine'] })
    for (const path of ['/runs/%/events', '/runs/%/history', '/runs/events?run=%']) {
      expect(await status(path.replace('%', 'mine'), headers)).toBe(200)
      expect(await status(path.replace('%', 'theirs'), headers)).toBe(403)
      // Not even whether there is such a run is told.
      expect(await status(path.replace('%', 'no-such-run'), headers)).toBe(403)
    }
    expect(await status('/runs/events?run=mine&run=theirs', headers)).toBe(403)
    expect(await status('/runs/mine/cancel', headers, { method: 'POST' })).toBe(403)
    const every = await holding({ subscribe: ['run:*'] })
    expect(await status('/runs/events?run=mine&run=theirs', every)).toBe(200)
    expect(await status('/runs/no-such-run', every)).toBe(404)
  })

  test('a list holds only what is granted, on every page of it', async () => {
    const headers = await holding({ subscribe: ['run:listed-1'], manage: ['run:listed-2'] })
    const list = async (query: string) =>
      (await (await ask(`/runs${query}`, headers)).json()) as { runs: { run: string }[]; next: string | null }
    expect((await list('')).runs.map(({ run }) => run)).toEqual(['listed-1', 'listed-2'])
    const first = await list('?limit=1')
    expect(first).toMatchObject({ runs: [{ run: 'listed-1' }], next: 'listed-1' })
    expect(await list(`?limit=1&after=${first.next}`)).toMatchObject({ runs: [{ run: 'listed-2' }], next: null })
  })

  test('to manage a run is to register, see and cancel it, and not to read it', async () => {
    const headers = await holding({ manage: ['run:managed'] })
    expect(await status('/runs', headers, registration('other-one'))).toBe(403)
    expect(await status('/runs', headers, { method: 'POST', body: '{"url":"http://127.0.0.1:9/"}' })).toBe(403)
    expect(await status('/runs', headers, registration('managed'))).toBe(201)
    expect(await status('/runs/managed', headers)).toBe(200)
    expect(await status('/runs/managed/events', headers)).toBe(403)
    expect(await status('/runs/managed/history', headers)).toBe(403)
    expect(await status('/runs/managed/cancel', headers, { method: 'POST' })).toBe(202)
    expect(await status('/relays', headers)).toBe(403)
    expect(await status('/metrics', headers)).toBe(403)
    const all = await holding({ manage: ['run:*'] })
    expect(await status('/relays', all)).toBe(200)
    expect(await status('/metrics', all)).toBe(200)
  })

  test('a topic is published to and followed by who was granted that, and a wildcard is not narrowed', async () => {
    const headers = await holding({ subscribe: ['topic:orders.>', 'topic:labels.1'], publish: ['topic:orders.*'] })
    const post = { method: 'POST', body: 'x' }
    expect(await status('/topics/orders.1', headers, post)).toBe(201)
    for (const topic of ['orders.1.2', 'orders', 'labels.1'])
      expect(await status(`/topics/${topic}`, headers, post)).toBe(403)
    const many = (...topics: string[]) => ({
      method: 'POST',
      body: JSON.stringify(topics.map((topic) => ({ topic, data: 'x' }))),
    })
    const before = await (await ask('/topics/orders.2', headers)).json()
    expect(await status('/topics', headers, many('orders.2', 'labels.1'))).toBe(403)
    expect(await (await ask('/topics/orders.2', headers)).json()).toMatchObject({ last: null })
    expect(before).toMatchObject({ last: null })
    expect(await status('/topics', headers, many('orders.2', 'orders.3'))).toBe(201)
    const follow = (...topics: string[]) =>
      status(`/topics/events?${topics.map((one) => `topic=${one}`).join('&')}`, headers)
    expect(await follow('orders.*', 'labels.1')).toBe(200)
    expect(await follow('orders.>')).toBe(200)
    for (const wide of ['>', '*', '*.1', 'orders', 'labels.*', 'labels.>']) expect(await follow(wide)).toBe(403)
    expect(await follow('orders.*', 'labels.2')).toBe(403)
  })

  test('a replay holds what is granted, and nothing of what lies between', async () => {
    for (const topic of ['open.1', 'secret.1', 'open.2', 'secret.2']) await writeTopics(log.nats, topic, 1, 20)
    const headers = await holding({ subscribe: ['topic:open.>'] })
    await using client = new SseClient({ urls: [`${edge.url}/topics/events?topic=open.>&from=start`], headers })
    await client.untilEvents(40)
    expect(client.events.every(({ event }) => event?.startsWith('open.'))).toBe(true)
  })
})

test('a stream ends with its token, after all there was, and who returns with it gets 401', async () => {
  await writeRange(log.nats, 'long', 1, 50)
  // A token is taken for 5 s after its end, since clocks differ.
  const headers = await holding({ subscribe: ['run:long'] }, { exp: Math.floor(Date.now() / 1000) - 2 })
  await using client = new SseClient({ urls: [`${edge.url}/runs/long/events`], headers })
  await client.untilEvents(50)
  await writeRange(log.nats, 'long', 51, 60)
  await client.done
  expect(client.events.map(indexOf)).toEqual(Array.from({ length: 60 }, (_, at) => at + 1))
  expect(client.frames.at(-1)).toMatchObject({ event: 'stream.bye', data: '{"reason":"token-expired"}' })
  expect(client.openings.map(({ status: answer }) => answer)).toEqual([200, 401])
  expect(edge.edge.clients.size).toBe(0)
})

test('no cache may hand on an answer that a token opened', async () => {
  const headers = await holding({ subscribe: ['run:mine'] })
  for (const path of ['/runs', '/runs/mine', '/runs/mine/history', '/runs/mine/events', '/runs/theirs']) {
    const response = await ask(path, headers)
    await response.body?.cancel()
    expect(response.headers.get('cache-control')).toMatch(path.endsWith('events') ? /no-cache/ : /no-store/)
  }
})

describe('where the token comes from', () => {
  test('the header, or the cookie, or both where they are the same', async () => {
    await writeRange(log.nats, 'r1', 1, 1)
    const token = await signToken({ baton: { subscribe: ['run:*'] } })
    const other = await signToken({ baton: { subscribe: ['run:*'] }, jti: 'other' })
    const show = (headers: Record<string, string>) => status('/runs/r1', headers)
    expect(await show({ cookie: `baton=${token}` })).toBe(200)
    expect(await show({ cookie: `theme=dark; baton=${token}; lang=en` })).toBe(200)
    expect(await show({ cookie: `baton=${token}`, authorization: `bearer ${token}` })).toBe(200)
    expect(await show({ cookie: `baton=${other}`, authorization: `Bearer ${token}` })).toBe(401)
    expect(await show({ cookie: `baton=${other}; baton=${token}` })).toBe(401)
    expect(await show({ cookie: 'baton=', authorization: `Bearer ${token}` })).toBe(200)
    expect(await show({ cookie: `notbaton=${token}` })).toBe(401)
    expect(await show({ authorization: `Basic ${token}` })).toBe(401)
    expect(await status(`/runs/r1?token=${token}`)).toBe(401)
  })

  test('a cookie changes nothing unless the page that asks is known, for a browser sends it with any page', async () => {
    const cookie = `baton=${await signToken({ baton: { publish: ['topic:>'], manage: ['run:*'] } })}`
    const post = { method: 'POST', body: 'x' }
    const own = new URL(edge.url).origin
    expect(await status('/topics/csrf', { cookie }, post)).toBe(403)
    expect(await status('/topics/csrf', { cookie, origin: 'null' }, post)).toBe(403)
    expect(await status('/topics/csrf', { cookie, origin: 'https://evil.example' }, post)).toBe(403)
    expect(await status('/topics/csrf', { cookie, origin: PAGE }, post)).toBe(201)
    expect(await status('/topics/csrf', { cookie, origin: own }, post)).toBe(201)
  })
})

describe('pages of other origins (CORS)', () => {
  test('those that are named read with cookies, also what is refused; no other does', async () => {
    const response = await ask('/runs/mine', { origin: PAGE })
    expect(response.status).toBe(401)
    expect(response.headers.get('access-control-allow-origin')).toBe(PAGE)
    expect(response.headers.get('access-control-allow-credentials')).toBe('true')
    expect(response.headers.get('vary')).toBe('Origin')
    const other = await ask('/runs/mine', { origin: 'https://evil.example' })
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
    expect((await ask('/livez')).headers.get('vary')).toBe('Origin')
  })

  test('a preflight needs no token and allows what a client sends', async () => {
    const response = await ask('/topics/a', { origin: PAGE }, { method: 'OPTIONS' })
    expect(response.status).toBe(204)
    const headers = response.headers.get('access-control-allow-headers')
    for (const name of ['Authorization', 'Idempotency-Key', 'Last-Event-ID', 'Content-Type'])
      expect(headers).toContain(name)
    expect(response.headers.get('access-control-allow-credentials')).toBe('true')
  })
})

test('the document says what each route asks for', async () => {
  const { paths, components } = await document()
  expect(Object.keys(components['securitySchemes'] ?? {})).toEqual(['bearer', 'cookie', 'ticket'])
  expect(paths['/livez']?.['get']?.security).toEqual([])
  expect(paths['/runs']?.['post']?.security).toEqual([{ bearer: [] }, { cookie: [] }])
  expect(paths['/topics/events']?.['get']?.security).toContainEqual({ ticket: [] })
})

test('a request that waits longer than its token lasts is answered at its end, also where that is no whole second', async () => {
  await writeRange(log.nats, 'waited', 1, 1)
  const exp = Date.now() / 1000 - 4 + 0.000_123
  const headers = await holding({ subscribe: ['run:waited'] }, { exp })
  const response = await ask('/runs/waited/history?from=now&wait=20', headers)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ events: [], ended: false })
})
