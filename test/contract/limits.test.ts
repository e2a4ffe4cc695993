import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseRegistration } from '@baton/core/run'
import { register } from '@baton/store/registry'
import { eventually } from '../kit/eventually.ts'
import { bearer, BY_SECRET, ISSUER, signToken, type Claims } from '../kit/issuer.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient } from '../kit/sse-client.ts'
import { writeRange } from '../kit/write-events.ts'
import type { EdgeConfig } from '../../apps/edge/src/config.ts'

/** Limits count for each client, and what one client does over its own takes nothing from another. */

const OTHER = 'https://other.example'
const auth = { ...BY_SECRET, issuers: [ISSUER, OTHER] }

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start()
  await writeRange(log.nats, 'r1', 1, 3)
})
afterAll(() => log[Symbol.asyncDispose]())

const start = (config: Partial<EdgeConfig>): Promise<LocalEdge> => LocalEdge.start(log.server.url, config)
type Headers = Record<string, string>
/** All come from one address here: only their tokens tell them apart. */
const as = (sub: string, claims: Claims = {}): Promise<Headers> =>
  bearer({ sub, baton: { subscribe: ['run:*', 'topic:>'], publish: ['topic:>'] }, ...claims })
async function open(edge: LocalEdge, headers: Headers, path = '/runs/r1/events'): Promise<number> {
  const response = await fetch(`${edge.url}${path}`, { headers })
  await response.body?.cancel()
  return response.status
}
async function opens(edge: LocalEdge, headers: Headers, tries: number): Promise<number> {
  const answers = await Promise.all(Array.from({ length: tries }, () => open(edge, headers)))
  return answers.filter((status) => status === 200).length
}

describe('opens', () => {
  test('count for the subject of a token, by whichever token, and no subject locks another out', async () => {
    await using edge = await start({ auth, opensPerClient: 3, opensTotal: 100 })
    const [ada, again, bob] = [await as('ada'), await as('ada', { jti: 'another' }), await as('bob')]
    const startedMs = performance.now()
    const taken = (await opens(edge, ada, 40)) + (await opens(edge, again, 40))
    expect(taken).toBeGreaterThanOrEqual(3)
    expect(taken).toBeLessThanOrEqual(3 + 3 * Math.ceil((performance.now() - startedMs) / 1000))
    expect(await opens(edge, bob, 3)).toBe(3)
    expect(await opens(edge, await as('ada', { iss: OTHER }), 3)).toBe(3)
  })

  test('by a ticket count for its subject', async () => {
    await using edge = await start({ auth, opensPerClient: 1 })
    const ada = await as('ada')
    const made = await fetch(`${edge.url}/tickets`, { method: 'POST', headers: ada })
    const { ticket } = (await made.json()) as { ticket: string }
    const byBoth = await Promise.all([
      ...Array.from({ length: 10 }, () => open(edge, ada)),
      ...Array.from({ length: 10 }, () => open(edge, {}, `/runs/r1/events?ticket=${ticket}`)),
    ])
    expect(byBoth.filter((status) => status === 200).length).toBeLessThan(5)
    expect(await open(edge, await as('bob'))).toBe(200)
  })

  test('in all are bounded, however many subjects there are', async () => {
    await using edge = await start({ auth, opensPerClient: 0, opensTotal: 5 })
    const startedMs = performance.now()
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, at) => open(edge, await as(`subject-${at}`))),
    )
    const taken = answers.filter((status) => status === 200).length
    expect(taken).toBeGreaterThanOrEqual(5)
    expect(taken).toBeLessThanOrEqual(5 + 5 * Math.ceil((performance.now() - startedMs) / 1000))
    expect(new Set(answers)).toEqual(new Set([200, 429]))
  })

  test('of who shows no valid token cost nobody anything', async () => {
    await using edge = await start({ auth, opensPerClient: 2, opensTotal: 4 })
    const forged = { authorization: `Bearer ${await signToken({ sub: 'ada' }, Buffer.alloc(64))}` }
    const answers = await Promise.all(Array.from({ length: 50 }, () => open(edge, forged)))
    expect(new Set(answers)).toEqual(new Set([401]))
    expect(await opens(edge, await as('ada'), 2)).toBe(2)
  })

  test('an EventSource over the limit comes back by itself, and misses nothing', async () => {
    await using edge = await start({ auth, opensPerClient: 1 })
    const headers = await as('ada')
    const clients = Array.from({ length: 4 }, () => new SseClient({ urls: [`${edge.url}/runs/r1/events`], headers }))
    for (const client of clients) await client.untilEvents(3, 30_000)
    expect(clients.some((client) => client.frames.some(({ event }) => event === 'stream.busy'))).toBe(true)
    for (const client of clients) {
      expect(client.openings.every(({ status }) => status === 200)).toBe(true)
      expect(client.events).toHaveLength(3)
      await client.close()
    }
  })
})

describe('connections', () => {
  test('so many for each subject: one more is told to come back, and may when one has left', async () => {
    await using edge = await start({ auth, connectionsPerClient: 2 })
    const [ada, bob] = [await as('ada'), await as('bob')]
    const follow = (headers: Headers) =>
      new SseClient({ urls: [`${edge.url}/runs/r1/events`], headers, reconnects: false })
    const [one, two] = [follow(ada), follow(ada)]
    await Promise.all([one.untilEvents(3), two.untilEvents(3)])
    const busy = await fetch(`${edge.url}/runs/r1/events`, { headers: { ...ada, accept: 'text/event-stream' } })
    expect(busy.status).toBe(200)
    expect(await busy.text()).toContain('"reason":"limit"')
    expect(await open(edge, ada)).toBe(429)
    expect(await open(edge, ada, '/runs/r1/history?wait=5&from=now')).toBe(429)
    await using other = follow(bob)
    await other.untilEvents(3)
    await one.close()
    await eventually('there is room again', async () => (await open(edge, ada)) === 200)
    await two.close()
  })

  test('requests that come to nothing leave nothing behind', async () => {
    await using edge = await start({ auth, connectionsPerClient: 2 })
    const ada = await as('ada')
    for (const path of ['/runs/no-such-run/events', '/runs/events?run=no-such-run', '/topics/events?topic=..']) {
      for (let at = 0; at < 5; at++) expect([400, 404]).toContain(await open(edge, ada, path))
    }
    for (let at = 0; at < 5; at++) {
      expect((await fetch(`${edge.url}/runs/r1/events`, { method: 'HEAD', headers: ada })).status).toBe(200)
      expect(await open(edge, ada, '/runs/r1/history?wait=1&from=1')).toBe(200)
    }
    await eventually('nobody is counted', () => edge.edge.connections.clients === 0)
  })
})

test('lists of runs wait for each other, and no stream waits for them', async () => {
  const spec = parseRegistration('listed', { url: 'http://127.0.0.1:9/never' })
  if (!spec.ok) throw new Error(spec.reason)
  await register(log.nats, spec.value)
  await using edge = await start({})
  await eventually('the run is listed', async () => (await (await fetch(`${edge.url}/runs`)).text()).includes('listed'))
  const leaving = new AbortController()
  const { views } = edge.edge
  const others = Array.from({ length: 50 }, () => views.take(leaving.signal))
  const { waiting } = views
  const list = fetch(`${edge.url}/runs`)
  await eventually('the list waits', () => views.waiting > waiting)
  expect(await open(edge, {})).toBe(200)
  for (const other of others) void other.then((giveBack) => giveBack())
  expect((await list).status).toBe(200)
  expect(views.waiting).toBe(0)
})

describe('who asks, where no token says it', () => {
  test('is the address a trusted proxy gives, and never what the client put before it', async () => {
    await using edge = await start({ opensPerClient: 2, trustedProxies: ['127.0.0.0/8'] })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => open(edge, { 'x-forwarded-for': `203.0.113.${at}, 198.51.100.1` })),
    )
    expect(answers.filter((status) => status === 200).length).toBeLessThan(10)
    expect(await opens(edge, { 'x-forwarded-for': '198.51.100.2' }, 2)).toBe(2)
  })

  test('of IPv6 is a network, for one client has all of its addresses', async () => {
    await using edge = await start({ opensPerClient: 2, trustedProxies: ['127.0.0.0/8'] })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => open(edge, { 'x-forwarded-for': `2001:db8::${at}` })),
    )
    expect(answers.filter((status) => status === 200).length).toBeLessThan(10)
    expect(await opens(edge, { 'x-forwarded-for': '2001:db8:0:1::1' }, 2)).toBe(2)
  })

  test('is the peer, whatever it says, where no proxy is trusted', async () => {
    await using edge = await start({ opensPerClient: 2 })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => open(edge, { 'x-forwarded-for': `198.51.100.${at}` })),
    )
    expect(answers.filter((status) => status === 200).length).toBeLessThan(10)
  })
})

type Published = { sequence: number; duplicate: boolean }
async function publish(edge: LocalEdge, headers: Headers, data: string, key?: string) {
  const init = {
    method: 'POST',
    body: data,
    headers: { ...headers, ...(key === undefined ? {} : { 'idempotency-key': key }) },
  }
  const response = await fetch(`${edge.url}/topics/shared.1`, init)
  return { status: response.status, body: (await response.json()) as Published }
}

describe('publishers', () => {
  test('have each their own rate', async () => {
    await using edge = await start({ auth, publishPerSecond: 5 })
    const [ada, bob] = [await as('ada'), await as('bob')]
    const greedy = await Promise.all(Array.from({ length: 40 }, (_, at) => publish(edge, ada, `ada ${at}`)))
    expect(greedy.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
    expect(greedy.filter(({ status }) => status === 201).length).toBeGreaterThanOrEqual(5)
    for (let at = 0; at < 5; at++) expect((await publish(edge, bob, `bob ${at}`)).status).toBe(201)
  })

  test('have each their own idempotency keys: none hides another’s event', async () => {
    await using edge = await start({ auth })
    await using second = await start({ auth })
    const first = await publish(edge, await as('ada'), 'of ada', 'k')
    expect(first).toMatchObject({ status: 201, body: { duplicate: false } })
    expect(await publish(edge, await as('bob'), 'of bob', 'k')).toMatchObject({
      status: 201,
      body: { duplicate: false },
    })
    const other = await publish(edge, await as('ada', { iss: OTHER }), 'of another ada', 'k')
    expect(other).toMatchObject({ status: 201, body: { duplicate: false } })
    // Her own is hers at every edge and by every token.
    const again = await publish(second, await as('ada', { jti: 'renewed' }), 'of ada', 'k')
    expect(again).toMatchObject({ status: 200, body: { duplicate: true, sequence: first.body.sequence } })
  })
})

test('a request that waits for news does not outlast its token', async () => {
  await using edge = await start({ auth })
  const { authorization = '' } = await as('ada', { exp: Math.floor(Date.now() / 1000) - 3 })
  const startedMs = performance.now()
  const answer = await fetch(`${edge.url}/runs/r1/history?from=now&wait=30`, { headers: { authorization } })
  expect(await answer.json()).toMatchObject({ events: [] })
  expect(performance.now() - startedMs).toBeLessThan(15_000)
})

describe('bodies', () => {
  const MiB = 2 ** 20
  /** A body of the greatest length, of which the last byte never comes. */
  function begin(edge: LocalEdge, { authorization = '' }: Headers) {
    const socket = connect(edge.port, '127.0.0.1')
    const heard = { text: '' }
    socket.on('data', (bytes: Buffer) => (heard.text += bytes.toString('latin1')))
    socket.on('error', () => undefined)
    const head = ['host: edge', `authorization: ${authorization}`, `content-length: ${8 * MiB}`].join('\r\n')
    socket.write(`POST /topics/a HTTP/1.1\r\n${head}\r\n\r\n`)
    socket.write(Buffer.alloc(8 * MiB - 1, 'x'))
    return { socket, heard }
  }

  test('I7: of one client that never end hold no more than their share, and keep nobody else from publishing', async () => {
    await using edge = await start({ auth })
    const { bodies } = edge.edge
    const [ada, bob] = [await as('ada'), await as('bob')]
    const publish = async (headers: Headers) =>
      (await fetch(`${edge.url}/topics/a`, { method: 'POST', headers, body: 'x'.repeat(1000) })).status
    const begun = Array.from({ length: 12 }, () => begin(edge, ada))
    await eventually(
      'what is too much is refused',
      () => begun.filter(({ heard }) => heard.text.includes(' 429 ')).length >= 4,
    )
    expect(bodies.bytes).toBeGreaterThan(32 * MiB)
    expect(bodies.bytes).toBeLessThanOrEqual(64 * MiB)
    expect(await publish(bob)).toBe(201)
    for (const { socket } of begun) socket.destroy()
    await eventually('nothing is held any more', () => bodies.bytes === 0)
    expect(await publish(ada)).toBe(201)
  })
})
