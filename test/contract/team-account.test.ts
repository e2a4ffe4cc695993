import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { headers } from '@nats-io/nats-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isCode } from '@baton/core/errors'
import { connectNats, type Nats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import { publish } from '@baton/store/publish'
import { ensureTopology } from '@baton/store/topology'
import { Child } from '../kit/child.ts'
import { connectAs } from '../kit/connect-as.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { NatsServer, PASSWORDS, type Role } from '../kit/nats-server.ts'
import { refusals } from '../kit/refusals.ts'

/** Producers of another account, as nats/accounts.conf lets them in. */

let server: NatsServer
let [operator, team, subscriber]: Nats[] = []
const connections = new AsyncDisposableStack()
beforeAll(async () => {
  server = connections.use(await NatsServer.start({ users: true }))
  ;[operator, team, subscriber] = await Promise.all((['operator', 'team-a', 'subscriber'] as const).map(as))
})
afterAll(() => connections.disposeAsync())

const as = async (role: Role): Promise<Nats> => connections.use(await connectAs(server, role)).nats

/** As whoever asks for an ack of JetStream does. */
const store = (subject: string, data: string) => publish(must(team), subject, data, headers(), 5000)

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the connections were not made')
  return value
}

test('where there is no stream to store it a publish is refused, not acknowledged', async () => {
  await expect(store('baton.orders.42', 'paid')).rejects.toSatisfy((error) => isCode(error, 'unavailable'))
})

test('a publish lands under the name of its account, is heard live there, and is acknowledged when it is stored', async () => {
  await ensureTopology(must(operator), SMALL_TOPOLOGY)
  const heard: string[] = []
  must(subscriber).nc.subscribe('live.topic.>', { callback: (_, message) => void heard.push(message.subject) })
  await must(subscriber).nc.flush()
  const { stream, sequence } = await store('baton.orders.42', 'paid')
  expect(stream).toBe(STREAM.topics)
  const stored = await must(operator).jsm.streams.getMessage(STREAM.topics, { seq: sequence })
  expect(stored).toMatchObject({ subject: 'topic.TEAM_A.orders.42' })
  expect(stored?.string()).toBe('paid')
  await eventually('it is heard', () => heard.includes('live.topic.TEAM_A.orders.42'))
})

test('a spoofed name of an account is refused, or stands behind the true one', async () => {
  const attempts = ['topic.TEAM_B.orders', 'topic.TEAM_A.orders', 'topic.orders', 'live.topic.TEAM_A.orders', 'run.r1']
  const wanted = attempts.map((subject) => ['publish', subject] as const)
  expect(await refusals(must(team), wanted)).toEqual(wanted)
  const { sequence } = await store('baton.TEAM_B.orders', 'mine')
  const stored = await must(operator).jsm.streams.getMessage(STREAM.topics, { seq: sequence })
  expect(stored?.subject).toBe('topic.TEAM_A.TEAM_B.orders')
})

test('it reads nothing: neither topics, nor JetStream, nor what others are answered', async () => {
  const wanted = [
    ['subscribe', 'live.>'],
    ['subscribe', '>'],
    ['subscribe', '_INBOX.>'],
    ['publish', '$JS.API.STREAM.INFO.TOPICS'],
    ['publish', '$JS.API.STREAM.MSG.GET.TOPICS'],
  ] as const
  expect(await refusals(must(team), wanted)).toEqual(wanted)
})

/** A copy of the configuration with a change, started. */
async function changed(change: (accounts: string) => string) {
  const folder = await mkdtemp(join(tmpdir(), 'baton-team-'))
  await cp(join(root, 'nats'), folder, { recursive: true })
  const accounts = await readFile(join(folder, 'accounts.conf'), 'utf8')
  const text = change(accounts)
  if (text === accounts) throw new Error('nats/accounts.conf has changed its form')
  await writeFile(join(folder, 'accounts.conf'), text)
  const binary = findBinary('nats-server', 'BATON_NATS_SERVER')
  if (binary === null) throw new Error('no nats-server: run `npm run setup`')
  const places = ['-a', '127.0.0.1', '-p', '-1']
  const environment = { ...PASSWORDS, NATS_DATA: join(folder, 'data') }
  const child = new Child('nats-server', binary, ['-c', join(folder, 'server.conf'), ...places], environment)
  return {
    child,
    async [Symbol.asyncDispose]() {
      await child[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

test('an account that imports the name of another keeps the server from starting', async () => {
  await using spoofed = await changed((text) => text.replace('subject: "topic.TEAM_A.>"', 'subject: "topic.TEAM_B.>"'))
  expect((await spoofed.child.exited).code).toBe(1)
  expect(spoofed.child.output).toContain('service import "topic.TEAM_B.>": service import not authorized')
})

test('even a user of the account that may do everything in it reaches no other name', async () => {
  await using free = await changed((text) =>
    text.replace('publish: ["baton.>"]', 'publish: [">"]').replace('["_INBOX.team-a.>"]', '[">"]'),
  )
  const [, port = ''] = await free.child.said(/Listening for client connections on 127\.0\.0\.1:(\d+)/)
  const url = server.urlOf('team-a').replace(/\d+$/, port)
  const nats = await connectNats({ servers: [url], name: 'test' }, AbortSignal.timeout(20_000))
  const operating = server.urlOf('operator').replace(/\d+$/, port)
  const other = await connectNats({ servers: [operating], name: 'test' }, AbortSignal.timeout(20_000))
  await ensureTopology(other, SMALL_TOPOLOGY)
  for (const subject of ['topic.TEAM_B.orders', 'topic.orders', 'run.r1', '$KV.runs.r1', '$JS.API.STREAM.INFO.RUNS']) {
    await expect(publish(nats, subject, 'x', headers(), 5000), subject).rejects.toSatisfy((error) =>
      isCode(error, 'unavailable'),
    )
  }
  expect((await other.jsm.streams.info(STREAM.topics)).state.messages).toBe(0)
  await nats.nc.close()
  await other.nc.close()
})
