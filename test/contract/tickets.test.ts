import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { readKey } from '@baton/store/bucket'
import { connectNats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { ensureTopology } from '@baton/store/topology'
import { eventually, steadily } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { askTicket, bearer, BY_SECRET, signToken, type Claims } from '../kit/issuer.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { SseClient } from '../kit/sse-client.ts'
import { writeTopic } from '../kit/topics.ts'
import { writeRange } from '../kit/write-events.ts'

/** Tickets open streams for an EventSource, which can send no header. */

const OPEN_MS = 2000
const AUTH = { ticketOpenMs: OPEN_MS, auth: BY_SECRET }

let log: LogServer
let one: LocalEdge
let two: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  one = keep(await LocalEdge.start(log.server.url, AUTH))
  two = keep(await LocalEdge.start(log.server.url, AUTH))
  await writeRange(log.nats, 'r1', 1, 3)
})

type Made = { ticket: string; expiresAt: string; endsAt: string }
/** In so many seconds, as a token says it. */
const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds
const GRANTS = { subscribe: ['run:r1', 'topic:orders.*'], publish: ['topic:>'], manage: ['run:*'] }

async function askFor(claims: Claims = {}): Promise<Response> {
  return askTicket(one, { baton: GRANTS, ...claims })
}
async function makeTicket(claims: Claims = {}): Promise<Made> {
  const response = await askFor(claims)
  expect(response.status).toBe(201)
  return (await response.json()) as Made
}
const stream = (edge: LocalEdge, ticket: string, run = 'r1') => `${edge.url}/runs/${run}/events?ticket=${ticket}`
async function status(url: string, init: RequestInit = {}): Promise<number> {
  const response = await fetch(url, init)
  await response.body?.cancel()
  return response.status
}

test('a ticket opens streams at another edge, again and again, of what its token may follow', async () => {
  const { ticket, expiresAt, endsAt } = await makeTicket()
  expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(OPEN_MS)
  expect(Date.parse(endsAt) - Date.now()).toBeGreaterThan(500_000)
  await using client = new SseClient({ urls: [stream(two, ticket), stream(one, ticket)] })
  await client.untilEvents(3)
  client.drop()
  await eventually(
    'it is back at the other edge',
    () => client.openings.length >= 2 && client.openings[1]?.status === 200,
  )
  await writeRange(log.nats, 'r1', 4, 5)
  await client.untilEvents(5)
  expect(client.openings.every((opening) => opening.status === 200)).toBe(true)
  expect(await status(`${two.url}/topics/events?topic=orders.1&ticket=${ticket}`)).toBe(200)
  expect(await status(stream(two, ticket, 'r2'))).toBe(403)
  expect(await status(`${two.url}/topics/events?topic=orders.>&ticket=${ticket}`)).toBe(403)
})

test('a ticket waits a minute to be opened, by the clock of the bucket, and not longer than its token', async () => {
  await using usual = await LocalEdge.start(log.server.url, { auth: AUTH.auth })
  const ask = async (claims: Claims) => {
    const response = await askTicket(usual, { baton: GRANTS, ...claims })
    expect(response.headers.get('cache-control')).toBe('no-store')
    const made = (await response.json()) as Made
    const [owner, place] = made.ticket.split('.')
    const stored = await log.nats.jsm.streams.getMessage('KV_tickets', {
      last_by_subj: `$KV.tickets.${owner}.${place}`,
    })
    return { ...made, ttl: stored?.header.get('Nats-TTL') }
  }
  const made = await ask({})
  expect(made.ttl).toBe('60s')
  expect(Date.parse(made.expiresAt) - Date.now()).toBeGreaterThan(50_000)
  expect(Date.parse(made.expiresAt) - Date.now()).toBeLessThanOrEqual(60_000)
  const short = await ask({ exp: inSeconds(20) })
  expect(short.ttl).toMatch(/^2\ds$/)
  expect(Date.parse(short.expiresAt)).toBeLessThanOrEqual(Date.parse(short.endsAt))
  // An end beyond what dates can say.
  const endless = await ask({ exp: 1e300 })
  expect(endless.ttl).toBe('60s')
  expect(await status(stream(usual, endless.ticket))).toBe(200)
  expect(await status(stream(two, endless.ticket))).toBe(200)
})

test('a ticket does nothing but open streams, and goes with no other token', async () => {
  const { ticket } = await makeTicket()
  for (const path of ['/runs/r1', '/runs/r1/history', '/runs', '/topics/orders.1']) {
    expect(await status(`${one.url}${path}?ticket=${ticket}`)).toBe(401)
  }
  for (const path of ['/topics/orders.1', '/tickets', '/runs/r1/cancel', '/runs/r1/events']) {
    expect(await status(`${one.url}${path}?ticket=${ticket}`, { method: 'POST', body: 'x' })).toBe(401)
  }
  const { authorization } = await bearer({ baton: GRANTS })
  expect(await status(stream(one, ticket), { headers: { authorization } })).toBe(401)
  expect(await status(stream(one, `${ticket}&ticket=another`))).toBe(401)
  expect(await status(stream(one, ticket), { headers: { cookie: 'baton=stale' } })).toBe(200)
})

test('one that is not opened in time is none any more, at no edge; one that was stays', async () => {
  const [late, opened] = [await makeTicket(), await makeTicket()]
  expect(await status(stream(one, opened.ticket))).toBe(200)
  const key = (ticket: string) => ticket.split('.').slice(0, 2).join('.')
  await eventually(
    'the bucket forgets it',
    async () => (await readKey(log.nats, BUCKET.tickets, key(late.ticket))).value === null,
  )
  expect(await status(stream(one, late.ticket))).toBe(401)
  expect(await status(stream(two, late.ticket))).toBe(401)
  expect(await status(stream(two, opened.ticket))).toBe(200)
})

test('it ends with its token: the stream by a bye, and who returns gets 401', async () => {
  // A token is taken for 5 s after its end, since clocks differ.
  const { ticket } = await makeTicket({ exp: inSeconds(-2) })
  await using client = new SseClient({ urls: [stream(one, ticket), stream(two, ticket)] })
  await client.untilEvents(3)
  const bye = await client.until('a bye', (frame) => frame.event === 'stream.bye')
  expect(bye.data).toBe('{"reason":"token-expired"}')
  await client.done
  expect(client.openings.at(-1)?.status).toBe(401)
  expect(await status(stream(one, ticket))).toBe(401)
})

test('a guess is none: not of the form, not made, or made with another secret', async () => {
  const { ticket } = await makeTicket()
  const [owner, place, secret = ''] = ticket.split('.')
  const other = `${owner}.${place}.${secret.startsWith('A') ? 'B' : 'A'}${secret.slice(1)}`
  for (const guess of ['x', '%00', `${owner}.*.${secret}`, `${owner}.999.${secret}`, other, `${ticket}x`]) {
    expect(await status(stream(two, guess))).toBe(401)
  }
  expect(await status(stream(two, ticket))).toBe(200)
  // What is stored opens nothing by itself.
  const { value } = await readKey(log.nats, BUCKET.tickets, `${owner}.${place}`)
  expect(value).not.toContain(secret)
})

test('an address that guesses too fast has to wait, and opened tickets from there go on', async () => {
  const { ticket } = await makeTicket()
  expect(await status(stream(two, ticket))).toBe(200)
  const accept = { headers: { accept: 'text/event-stream' } }
  const guess = async () => (await fetch(stream(two, `guess-${Math.random()}`), accept)).text()
  const isLimit = (answer: string) => answer.includes('event: stream.busy') && answer.includes('"reason":"limit"')
  await eventually('it is told to wait', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, guess))
    expect(answers.filter((answer) => !isLimit(answer)).every((answer) => answer.includes('"status":401'))).toBe(true)
    return answers.some(isLimit)
  })
  expect(await status(stream(two, ticket), accept)).toBe(200)
})

test('one token has a bounded number of them, whoever asks and however fast', async () => {
  const at = await LocalEdge.start(log.server.url, { ...AUTH, ticketOpenMs: 60_000 })
  try {
    const { authorization } = await bearer({ baton: GRANTS, jti: 'greedy' })
    const ask = async () => {
      const response = await fetch(`${at.url}/tickets`, { method: 'POST', headers: { authorization } })
      return { status: response.status, retryAfter: response.headers.get('retry-after') }
    }
    const answers = []
    for (let round = 0; round < 30; round++) answers.push(...(await Promise.all(Array.from({ length: 10 }, ask))))
    const made = answers.filter((answer) => answer.status === 201).length
    expect(made).toBeLessThanOrEqual(256)
    await eventually('the places are full', async () => (await ask()).status === 429)
    const places = await log.nats.jsm.streams.info('KV_tickets', { subjects_filter: '$KV.tickets.>' })
    const most = Object.keys(places.state.subjects ?? {}).reduce<Record<string, number>>((counts, subject) => {
      const owner = subject.split('.')[2] ?? ''
      return { ...counts, [owner]: (counts[owner] ?? 0) + 1 }
    }, {})
    expect(Math.max(...Object.values(most))).toBe(256)
  } finally {
    await at[Symbol.asyncDispose]()
  }
})

test('a token is one token however its signature is written', async () => {
  const token = await signToken({ baton: GRANTS, jti: 'spelt' })
  const [head, tail] = [token.slice(0, -1), token.slice(-1)]
  // The last character has two bits that stand for nothing, padding is passed over, and so are blanks in a cookie.
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const other = alphabet[alphabet.indexOf(tail) ^ 1] ?? ''
  const spellings = [token, `${head}${other}`, `${token}=`, `${token.slice(0, -5)}  ${token.slice(-5)}`]
  const owners = new Set<string>()
  for (const spelling of spellings) {
    const headers = { cookie: `baton=${spelling}`, origin: one.url }
    const response = await fetch(`${one.url}/tickets`, { method: 'POST', headers })
    if (response.status === 201) owners.add(((await response.json()) as Made).ticket.split('.')[0] ?? '')
    else expect(response.status).toBe(401)
  }
  expect(owners.size).toBe(1)
})

test('while NATS is away an edge goes on with the tickets it knows, and says of others that it cannot know', async () => {
  await using apart = await LogServer.start()
  await using edge = await LocalEdge.start(apart.server.url, AUTH)
  const { authorization } = await bearer({ baton: GRANTS })
  const ask = async () =>
    ((await (await fetch(`${edge.url}/tickets`, { method: 'POST', headers: { authorization } })).json()) as Made).ticket
  await writeTopic(apart.nats, 'orders.1', 'paid')
  const [known, unknown] = [await ask(), await ask()]
  const follow = (ticket: string) => `${edge.url}/topics/events?topic=orders.1&ticket=${ticket}`
  expect(await status(follow(known))).toBe(200)
  apart.server.pause()
  try {
    const accept = { headers: { accept: 'text/event-stream' } }
    const answer = await (await fetch(follow(unknown), accept)).text()
    expect(answer).toContain('event: stream.busy')
    expect(answer).toContain('"reason":"unavailable"')
    expect(await status(follow(unknown))).toBe(503)
    // What may be followed is known; where the topic stands may not be. In no case is the ticket refused.
    const again = await fetch(follow(known), accept)
    expect(again.status).toBe(200)
    await again.body?.cancel()
  } finally {
    apart.server.resume()
  }
})

test('the NATS user of an edge may do all that tickets take', async () => {
  await using server = await NatsServer.start({ users: true })
  const operator = await connectNats({ servers: [server.urlOf('operator')], name: 'test' }, AbortSignal.timeout(20_000))
  try {
    await ensureTopology(operator, SMALL_TOPOLOGY)
    await using edge = await LocalEdge.start(server.urlOf('edge'), AUTH)
    const response = await askTicket(edge, { baton: GRANTS })
    expect(response.status).toBe(201)
    const { ticket } = (await response.json()) as Made
    await using other = await LocalEdge.start(server.urlOf('edge'), AUTH)
    expect(await status(`${other.url}/topics/events?topic=orders.1&ticket=${ticket}`)).toBe(200)
    expect(await status(`${other.url}/topics/events?topic=orders.1&ticket=${ticket.slice(0, -2)}xx`)).toBe(401)
    expect(server.child.output).not.toContain('Violation')
  } finally {
    await operator.nc.close()
  }
})

test('an edge that asks for no tokens has nothing to make tickets of', async () => {
  await using open = await LocalEdge.start(log.server.url)
  expect(await status(`${open.url}/tickets`, { method: 'POST' })).toBe(409)
  expect(await status(`${open.url}/runs/r1/events?ticket=any`)).toBe(200)
})

test('I8: who leaves while a ticket is looked up is not kept as a client', async () => {
  await using proxy = await Proxy.start({ port: log.server.port })
  await using slow = await LocalEdge.start(`nats://127.0.0.1:${proxy.port}`, AUTH)
  const { ticket } = await makeTicket()
  const held = proxy.holdUp()
  const client = connect(slow.port, '127.0.0.1')
  const { pathname, search } = new URL(stream(slow, ticket))
  client.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n`)
  await eventually('the ticket is looked up', () => held.waiting().includes('KV_tickets'))
  client.destroy()
  await eventually('it has left', async () => (await slow.connections()) === 0)
  held.flow()
  const { edge } = slow
  // Long enough for the answer that was under way.
  await steadily('it is no client', () => edge.clients.size === 0 && edge.connections.clients === 0, 1000)
})
