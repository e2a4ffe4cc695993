import { createConnection, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { freePort } from '../kit/free-port.ts'
import { LogServer } from '../kit/log-server.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { startEdge } from '../kit/process.ts'
import { indexOf, SseClient } from '../kit/sse-client.ts'
import { runEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** The edge as a process: how it starts, refuses to start, drains, and dies. */

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start()
})
afterAll(() => log[Symbol.asyncDispose]())

const edge = (environment: Record<string, string>): Child =>
  new Child('edge', process.execPath, [join(root, 'apps/edge/src/main.ts')], {
    PATH: process.env['PATH'] ?? '',
    BATON_PORT: '0',
    ...environment,
  })

describe('it refuses to start', () => {
  test.each([
    [{ BATON_AUTH: 'jwt' }, 'jwt needs keys'],
    [{ BATON_AUTH: 'jwt', BATON_JWKS_URL: 'https://keys.example/jwks' }, 'BATON_JWT_ISSUERS: must name'],
    [{ BATON_HOST: '0.0.0.0' }, 'BATON_AUTH: must be given'],
    [{ BATON_HEARTBEAT_SM: '5' }, 'BATON_HEARTBEAT_SM: no such variable'],
  ])('%o', async (environment, complaint) => {
    await using child = edge({ BATON_NATS_URL: log.server.url, ...environment })
    expect((await child.exited).code).toBe(2)
    expect(child.output).toContain(complaint)
  })
})

test.each(['relay', 'edge', 'watchdog', 'agent'])('an option that %s does not know is not passed over', async (app) => {
  await using child = new Child(app, process.execPath, [join(root, 'apps', app, 'src/main.ts'), '--prot=9000'], {
    PATH: process.env['PATH'] ?? '',
    BATON_NATS_URL: log.server.url,
    ...(app === 'edge' || app === 'agent' ? { BATON_PORT: '0' } : {}),
  })
  expect((await child.exited).code).toBe(2)
  expect(child.output).toMatch(/--prot=9000: no such option|Unknown option '--prot'/)
})

test('a busy port is one sentence on stderr, of any process that listens', async () => {
  const busy = createServer()
  await new Promise<void>((resolve) => void busy.listen(0, '127.0.0.1', resolve))
  await using _ = { [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void busy.close(() => resolve())) }
  const port = String((busy.address() as AddressInfo).port)
  for (const [app, variable] of [
    ['edge', 'BATON_PORT'],
    ['agent', 'BATON_PORT'],
    ['relay', 'BATON_HEALTH_PORT'],
    ['watchdog', 'BATON_HEALTH_PORT'],
  ] as const) {
    await using child = new Child(app, process.execPath, [join(root, 'apps', app, 'src/main.ts')], {
      PATH: process.env['PATH'] ?? '',
      BATON_NATS_URL: log.server.url,
      [variable]: port,
    })
    expect((await child.exited).code).toBe(1)
    const sentence = `cannot listen on 127.0.0.1:${port}: the port is in use by another process; change ${variable}`
    expect(child.output).toMatch(new RegExp(`^${sentence}.*\n$`))
  }
})

test('without NATS it answers, is not ready, and waits; then it makes what is missing', async () => {
  const port = await freePort()
  await using child = edge({ BATON_NATS_URL: `nats://127.0.0.1:${port}` })
  const [, url = ''] = await child.said(/"url":"(http:[^"]+)"/)
  await child.said(/nats\.waiting/)
  expect((await fetch(`${url}/livez`)).status).toBe(200)
  expect((await fetch(`${url}/readyz`)).status).toBe(503)
  expect((await fetch(`${url}/runs/r1`)).status).toBe(503)
  const stream = await fetch(`${url}/runs/r1/events`, { headers: { accept: 'text/event-stream' } })
  expect(await stream.text()).toContain('"reason":"unavailable"')
  expect(await child.terminate()).toMatchObject({ code: 0 })

  await using nats = await NatsServer.start()
  await using late = edge({ BATON_NATS_URL: nats.url })
  const [, at = ''] = await late.said(/"url":"(http:[^"]+)"/)
  await eventually('it is ready', async () => (await fetch(`${at}/readyz`)).ok)
  expect((await fetch(`${at}/runs`)).status).toBe(200)
})

test('SIGTERM: every client is asked to come back and goes on at another edge; the process exits 0', async () => {
  await using one = await startEdge('edge-1', { natsUrl: log.server.url })
  await using two = await startEdge('edge-2', { natsUrl: log.server.url })
  await writeRange(log.nats, 'drained', 1, 5)
  const clients = Array.from(
    { length: 10 },
    () => new SseClient({ urls: [`${one.url}/runs/drained/events`, `${two.url}/runs/drained/events`] }),
  )
  for (const client of clients) await client.untilEvents(5)
  const [exit] = await Promise.all([one.child.terminate(), writeRange(log.nats, 'drained', 6, 50)])
  expect(exit.code).toBe(0)
  for (const client of clients) {
    await client.untilEvents(50)
    expect(client.events.map(indexOf)).toEqual(Array.from({ length: 50 }, (_, at) => at + 1))
    expect(client.frames.some((frame) => frame.data === '{"reason":"drain"}')).toBe(true)
    await client.close()
  }
})

test('SIGTERM with a client that takes nothing: the process does not wait for it', async () => {
  await using app = await startEdge('edge-1', { natsUrl: log.server.url, environment: { BATON_GRACE_MS: '10000' } })
  const big = Array.from({ length: 300 }, (_, at) => runEvent(at + 1, { data: 'x'.repeat(50_000) }))
  await writeEvents(log.nats, 'never-read', big)
  const socket = createConnection({ port: Number(new URL(app.url).port), host: '127.0.0.1' })
  socket.on('error', () => undefined)
  socket.write('GET /runs/never-read/events HTTP/1.1\r\nHost: edge\r\n\r\n')
  socket.pause()
  await eventually('it is a client', async () => {
    return (await (await fetch(`${app.url}/runs/never-read`)).text()).includes('"subscribers":1')
  })
  expect((await app.child.terminate()).code).toBe(0)
  socket.destroy()
})

test('kill -9: a client goes on where it was, at the same edge started again', async () => {
  await using app = await startEdge('edge-1', { natsUrl: log.server.url })
  await writeRange(log.nats, 'killed', 1, 5)
  await using client = new SseClient({ urls: [`${app.url}/runs/killed/events`] })
  await client.untilEvents(5)
  await app.child.kill()
  await writeRange(log.nats, 'killed', 6, 20)
  await app.restart()
  await client.untilEvents(20)
  expect(client.events.map(indexOf)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1))
})
