import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { writeKey } from '@baton/store/bucket'
import { connectNats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { batonAnswer } from '../kit/baton.ts'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { freePort } from '../kit/free-port.ts'
import { ISSUER } from '../kit/issuer.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { startEdge, startRelay, startWatchdog, type App } from '../kit/process.ts'

/** Whatever is secret holds this word, so that one search finds all of it. */
const WORD = 'hush'
const planted = (what: string): string => `${WORD}-${what}-${Math.random().toString(36).slice(2)}`

const SECRETS = {
  nats: planted('nats'),
  key: planted('key'),
  header: planted('header'),
  query: planted('query'),
  cancel: planted('cancel'),
  body: planted('body'),
  event: planted('event'),
  webhookUrl: planted('webhook-url'),
  webhookKey: planted('webhook-key'),
  bearer: planted('bearer'),
  cookie: planted('cookie'),
  ticket: planted('ticket'),
  idempotency: planted('idempotency'),
  posted: planted('posted'),
  signing: planted('signing-key-of-an-edge-that-asks-for-tokens'),
}

/** The fields a line of a log may have. Another one is added here when it is known what will stand in it. */
const FIELDS = new Set(
  `level time pid hostname name event run relay boot epoch job code err reason detail failures index ordinal runs
  peer peer_boot how asked given stored signal grace_ms url port clients feed from to heard took_ms status sequence
  verdict previous attempt failure on_orphan webhook deaf_ms keys stream changes version lost_ms app servers
  check`.split(/\s+/),
)

/** An agent that answers as its path says, and keeps what it was sent. */
async function startAgent() {
  const heard: string[] = []
  const answers: Record<string, (response: ServerResponse) => void> = {
    '/stream': (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`id: 1\nevent: output\ndata: ${SECRETS.event}\n\n`)
    },
    '/cut': (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`event: output\ndata: ${SECRETS.event}\n\n`, () => response.destroy())
    },
    '/elsewhere': (response) =>
      response.writeHead(302, { location: `http://127.0.0.1:1/?key=${SECRETS.query}` }).end(SECRETS.body),
    '/page': (response) => response.writeHead(200, { 'content-type': 'text/html' }).end(SECRETS.body),
    '/teapot': (response) => response.writeHead(418).end(SECRETS.body),
  }
  const server = createServer((request: IncomingMessage, response) => {
    heard.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`)
    const answer = answers[(request.url ?? '').split('?')[0] ?? '']
    if (answer === undefined) response.writeHead(401).end(SECRETS.body)
    else answer(response)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    heard,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => void server.close(resolve))
    },
  }
}

const PATHS = ['/stream', '/cut', '/elsewhere', '/page', '/teapot', '/unauthorized']

/** What a client might send that nobody but this edge should see. */
async function ask(
  edge: string,
  path: string,
  init: Pick<RequestInit, 'method' | 'body'> = {},
  more: Record<string, string> = {},
): Promise<string> {
  const query = `${path.includes('?') ? '&' : '?'}ticket=${SECRETS.ticket}&token=${SECRETS.query}`
  const response = await fetch(`${edge}${path}${query}`, {
    ...init,
    headers: {
      authorization: `Bearer ${SECRETS.bearer}`,
      cookie: `baton=${SECRETS.cookie}`,
      'idempotency-key': SECRETS.idempotency,
      ...more,
    },
    signal: AbortSignal.timeout(3000),
  })
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true
    ? ((await response.body?.cancel().then(() => '')) ?? '')
    : response.text()
}

/** Requests of every kind, most of them wrong. */
async function askAll(edge: string): Promise<string[]> {
  const answers: string[] = []
  const paths = ['/runs', '/runs/run-0', '/runs/nothing', '/runs/run-0/history', '/runs/run-0/events', '/relays']
  for (const path of [...paths, '/topics/a', '/topics/events?topic=a', '/tickets', '/no/such/path', '/metrics']) {
    answers.push(await ask(edge, path))
  }
  for (const body of [SECRETS.posted, `{"${SECRETS.posted}`, JSON.stringify({ url: `ftp://${SECRETS.posted}` })]) {
    for (const path of ['/runs', '/topics', '/topics/a', '/topics/a.*', '/runs/run-1/cancel', '/tickets']) {
      await ask(edge, path, { method: 'POST', body })
    }
  }
  await ask(edge, '/runs/run-0/events', {}, { 'last-event-id': SECRETS.posted })
  for (const bytes of [
    `GET /${SECRETS.query} HTTP/9.9\r\n\r\n`,
    `GET http://%${SECRETS.query} HTTP/1.1\r\nhost: ^\r\n\r\n`,
  ]) {
    await new Promise<void>((resolve) => {
      const { hostname, port } = new URL(edge)
      const socket = connect(Number(port), hostname, () => socket.end(bytes))
      socket.on('error', () => resolve()).on('close', () => resolve())
      socket.resume()
    })
  }
  return answers
}

const lines = (app: App): string[] => app.output.split('\n').filter((line) => line !== '')

test('no secret stands in any log, whatever fails, and every line has the fixed fields', async () => {
  await using stack = new AsyncDisposableStack()
  const nats = stack.use(await NatsServer.start({ password: SECRETS.nats }))
  const agent = stack.use(await startAgent())
  const folder = await mkdtemp(join(tmpdir(), 'baton-secrets-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'key'), SECRETS.signing)
  const environment = {
    BATON_LOG_LEVEL: 'debug',
    BATON_SECRET_KEY: SECRETS.key,
    BATON_UPSTREAM_GIVE_UP_MS: '3000',
    BATON_QUIET_MS: '1200',
    BATON_STALL_MS: '1500',
    BATON_GRACE_MS: '5000',
  }
  const options = { natsUrl: nats.url, environment }
  const jwt = { BATON_AUTH: 'jwt', BATON_JWT_KEY_FILE: join(folder, 'key'), BATON_JWT_ISSUERS: ISSUER }
  const hook = {
    BATON_WEBHOOK_URL: `${agent.url}/hook/${SECRETS.webhookUrl}?token=${SECRETS.webhookUrl}`,
    BATON_WEBHOOK_SECRET: SECRETS.webhookKey,
  }
  // The wrong password: what NATS says of it, and of a server that is not there, is logged as well.
  const wrong = nats.url.replace(SECRETS.nats, planted('wrong'))
  const absent = `nats://baton:${SECRETS.nats}@127.0.0.1:${await freePort()}`
  const apps = await Promise.all([
    startRelay('relay-1', options),
    startRelay('relay-2', options),
    startEdge('edge-1', options),
    startEdge('edge-2', { ...options, environment: { ...environment, ...jwt } }),
    startWatchdog('watchdog', { ...options, environment: { ...environment, ...hook } }),
    startRelay('wrong', { ...options, natsUrl: wrong, startedAt: '/livez' }),
    startEdge('absent', { ...options, natsUrl: absent, startedAt: '/livez' }),
  ])
  for (const app of apps) stack.use(app)
  const [relay, , edge, guarded] = apps as unknown as [App, App, App, App]

  const headers = { 'x-tenant': SECRETS.header }
  for (const [at, path] of [...PATHS, 'http://127.0.0.1:1', 'http://169.254.169.254'].entries()) {
    const base = path.startsWith('/') ? `${agent.url}${path}` : path
    const job = { url: `${base}?key=${SECRETS.query}`, cancel: `${agent.url}/cancel?c=${SECRETS.cancel}` }
    const body = JSON.stringify({ run: `run-${at}`, ...job, headers, secret: 'KEY' })
    expect((await fetch(`${edge.url}/runs`, { method: 'POST', body })).status).toBe(201)
  }
  const store = await connectNats({ servers: [nats.url], name: 'test' }, AbortSignal.timeout(10_000))
  stack.defer(() => store.nc.close())
  const records = [
    SECRETS.posted,
    `{"url":"http://me:${SECRETS.posted}@127.0.0.1/"}`,
    JSON.stringify({ url: agent.url, headers: { authorization: SECRETS.posted } }),
    JSON.stringify({ url: `ftp://${SECRETS.posted}`, secret: SECRETS.posted, resume: SECRETS.posted }),
  ]
  for (const [at, record] of records.entries()) await writeKey(store, BUCKET.runs, `bad-${at}`, record)

  const answers = await askAll(edge.url)
  await askAll(guarded.url)
  const sent = () => agent.heard.join('\n')
  await eventually(
    'the agent was sent them, and the webhook was tried',
    () => {
      const { key, header, query, webhookUrl } = SECRETS
      return [key, header, query, webhookUrl].every((secret) => sent().includes(secret))
    },
    { withinMs: 30_000 },
  )
  await ask(edge.url, '/runs/run-0/cancel', { method: 'POST' })
  await eventually('the agent was asked to cancel', () => sent().includes(SECRETS.cancel))

  await relay.child.kill()
  await relay.restart()
  await nats.kill()
  await eventually('it is noticed', async () => (await ask(edge.url, '/runs/run-0')).includes('503'))
  await askAll(edge.url).catch(() => undefined)
  await nats.start()
  await eventually('it is back', async () => !(await ask(edge.url, '/runs/run-0')).includes('503'))
  answers.push(...(await askAll(edge.url)))
  for (const app of apps) await app.child.terminate().catch(() => undefined)

  for (const app of apps) {
    expect(lines(app).length, app.name).toBeGreaterThan(1)
    expect(
      lines(app).filter((line) => line.includes(WORD)),
      app.name,
    ).toEqual([])
  }
  // What everybody may read says no more. The log of a run, and what is wrong with a request, are for who asks.
  const events = answers.filter((text) => !text.includes(SECRETS.event))
  expect(events.filter((text) => text.includes(WORD) && !text.includes(SECRETS.posted))).toEqual([])

  const entries = apps.flatMap((app) => app.child.logLines)
  expect(entries.flatMap((entry) => Object.keys(entry).filter((field) => !FIELDS.has(field)))).toEqual([])
  expect(entries.filter(({ event }) => !/^[a-z_]+(\.[a-z_]+)+$/.test(String(event)))).toEqual([])
})

test('the command line shows no password of NATS, whether it answers, refuses or is not there', async () => {
  await using nats = await NatsServer.start({ password: SECRETS.nats })
  const wrong = nats.url.replace(SECRETS.nats, planted('wrong'))
  const absent = `nats://baton:${SECRETS.nats}@127.0.0.1:${await freePort()}`
  const commands = [
    ['doctor', '--json'],
    ['runs', 'ls'],
    ['config', 'check', 'edge', '--json'],
  ]
  for (const url of [nats.url, wrong, absent]) {
    const answers = await Promise.all(
      commands.map((command) => batonAnswer(url, command, { BATON_SECRET_KEY: SECRETS.key })),
    )
    for (const { output } of answers) expect(output).not.toContain(WORD)
    expect(answers.map(({ output }) => output).join('')).toContain('127.0.0.1')
  }
})

test.each([
  [['--json'], /"event":"ready"/],
  [[], /To paste:[^]*Ctrl-C/],
] as [string[], RegExp][])('`baton up %j` shows no password of the NATS it was given', async (flags, isReady) => {
  await using stack = new AsyncDisposableStack()
  const nats = stack.use(await NatsServer.start({ password: SECRETS.nats }))
  const folder = await mkdtemp(join(tmpdir(), 'baton-secrets-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const size = ['--relays', '1', '--edges', '1', '--no-demo', '--port', String(await freePort())]
  const args = ['up', ...size, ...flags, '--data', join(folder, 'data'), '--nats', nats.url]
  const environment = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' }
  const up = new Child('baton up', process.execPath, [join(root, 'apps/cli/src/main.ts'), ...args], environment)
  try {
    await up.said(isReady, 60_000)
  } finally {
    await up.terminate()
  }
  expect(up.output).toContain('nats://baton:…@127.0.0.1')
  expect(up.output).not.toContain(WORD)
})
