import { headers, nuid } from '@nats-io/nats-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { publishBatch } from '@baton/store/batch'
import { listKeys, readKey, watchKeys, writeKey } from '@baton/store/bucket'
import type { Nats } from '@baton/store/connect'
import { directGet } from '@baton/store/direct-get'
import { BUCKET, STREAM, topicSubject } from '@baton/store/names'
import { makeTicket, openTicket } from '@baton/store/ticket-store'
import { ensureTopology } from '@baton/store/topology'
import { connectAs } from '../kit/connect-as.ts'
import { eventually, steadily } from '../kit/eventually.ts'
import { SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { NatsServer, type Role } from '../kit/nats-server.ts'
import { refusals, type Attempt } from '../kit/refusals.ts'
import { writeTopics } from '../kit/topics.ts'
import { writeRange } from '../kit/write-events.ts'

/** What nats/accounts.conf allows each role, and what it refuses, on a server that runs with it. */

let server: NatsServer
const connections = new AsyncDisposableStack()
beforeAll(async () => {
  server = connections.use(await NatsServer.start({ users: true }))
  await ensureTopology(await as('operator'), SMALL_TOPOLOGY)
})
afterAll(() => connections.disposeAsync())

const as = async (role: Role): Promise<Nats> => connections.use(await connectAs(server, role)).nats

const publish = (...subjects: string[]): Attempt[] => subjects.map((subject) => ['publish', subject])
const subscribe = (...subjects: string[]): Attempt[] => subjects.map((subject) => ['subscribe', subject])

const ROLES = ['relay', 'edge', 'watchdog', 'producer', 'subscriber', 'operator'] as const

/** What nobody may, whoever they are. */
const nobody = (role: Role): Attempt[] => [
  // Under live.> is what the log has stored, and a disconnect is the server's to tell.
  ...publish('live.run.r1', 'live.topic.orders', 'nats.disconnect'),
  // A single record that is deleted brings an older one back.
  ...publish('$JS.API.STREAM.MSG.DELETE.RUNS', '$JS.API.STREAM.MSG.DELETE.KV_claims'),
  // What others are answered.
  ...subscribe('>', '_INBOX.>', '_INBOX.*.*', ...ROLES.filter((one) => one !== role).map((one) => `_INBOX.${one}.>`)),
  ...subscribe('$SYS.>', '$KV.tickets.>', '$JS.API.>'),
  ...publish('$SYS.REQ.SERVER.PING', `_INBOX.${role === 'relay' ? 'edge' : 'relay'}.x.y`),
]

/** What only the operator may. */
const OPERATING = publish(
  '$JS.API.STREAM.CREATE.OTHER',
  '$JS.API.STREAM.UPDATE.RUNS',
  '$JS.API.STREAM.DELETE.RUNS',
  '$JS.API.STREAM.PURGE.RUNS',
  '$JS.API.STREAM.PURGE.KV_claims',
  '$JS.API.STREAM.SNAPSHOT.RUNS',
  '$JS.API.STREAM.RESTORE.RUNS',
  '$JS.API.STREAM.LEADER.STEPDOWN.RUNS',
  '$JS.API.CONSUMER.LIST.RUNS',
  '$JS.API.CONSUMER.NAMES.RUNS',
)

const LOG = publish('run.r1', 'run.r1.owner', 'run.r1.cursor')
const OWNERSHIP = publish('$KV.claims.r1', '$KV.status.r1', '$KV.heartbeats.liveness.r1')
const PEERS = publish('relay.beat.b1', 'relay.ping.b1', 'relay.release.b1', 'relay.released.r1', 'relay.drain.b1')
const TICKETS = publish(
  '$KV.tickets.o1.7',
  '$JS.API.DIRECT.GET.KV_tickets.$KV.tickets.o1.7',
  '$JS.API.STREAM.MSG.GET.KV_tickets',
)
/** Whoever makes a consumer of the tickets reads them all. */
const ALL_TICKETS = publish(
  '$JS.API.CONSUMER.CREATE.KV_tickets',
  '$JS.API.CONSUMER.CREATE.KV_tickets.c1',
  '$JS.API.CONSUMER.CREATE.KV_tickets.c1.$KV.tickets.>',
  '$JS.API.CONSUMER.DURABLE.CREATE.KV_tickets.c1',
  '$JS.API.DIRECT.GET.KV_tickets',
)
/** The consumer that hands alerts to watchdogs; whoever took from it would swallow them. */
const WEBHOOK = publish(
  '$JS.API.CONSUMER.MSG.NEXT.ALERTS.webhook',
  '$JS.API.CONSUMER.DELETE.ALERTS.webhook',
  '$JS.ACK.ALERTS.webhook.1.1.1.1.1',
)
const ALERT = publish('alert.run.r1')
const TOPIC = publish('topic.orders')
const REGISTRATION = publish('$KV.runs.r1')
/** Events before they are stored, refused ones among them. */
const UNSTORED = subscribe('run.*', 'run.>', 'topic.>', '$KV.claims.>')
const READ_LOG = publish('$JS.API.DIRECT.GET.RUNS', '$JS.API.STREAM.MSG.GET.RUNS', '$JS.API.CONSUMER.CREATE.RUNS')
const READ_TOPICS = publish(
  '$JS.API.DIRECT.GET.TOPICS',
  '$JS.API.STREAM.MSG.GET.TOPICS',
  '$JS.API.CONSUMER.CREATE.TOPICS',
)
const READ_BUCKETS = publish('$JS.API.DIRECT.GET.KV_runs.$KV.runs.r1', '$JS.API.CONSUMER.CREATE.KV_claims.c1')
const LIVE = subscribe('live.run.*', 'live.topic.>', 'live.>')

const NEVER: Readonly<Record<(typeof ROLES)[number], readonly Attempt[]>> = {
  relay: [
    ...OPERATING,
    ...TOPIC,
    ...ALERT,
    ...TICKETS,
    ...ALL_TICKETS,
    ...WEBHOOK,
    ...UNSTORED,
    ...LIVE,
    ...READ_TOPICS,
    ...publish('relay.drain.b1'),
  ],
  edge: [...OPERATING, ...LOG, ...OWNERSHIP, ...ALERT, ...PEERS, ...ALL_TICKETS, ...WEBHOOK, ...UNSTORED],
  watchdog: [
    ...OPERATING,
    ...TOPIC,
    ...TICKETS,
    ...ALL_TICKETS,
    ...UNSTORED,
    ...LIVE,
    ...READ_TOPICS,
    ...publish('relay.release.b1', 'relay.drain.b1'),
  ],
  producer: [
    ...OPERATING,
    ...LOG,
    ...OWNERSHIP,
    ...REGISTRATION,
    ...ALERT,
    ...PEERS,
    ...TICKETS,
    ...ALL_TICKETS,
    ...WEBHOOK,
    ...UNSTORED,
    ...LIVE,
    ...READ_LOG,
    ...READ_TOPICS,
    ...READ_BUCKETS,
    ...publish('$JS.API.STREAM.INFO.RUNS', '$JS.API.STREAM.NAMES', '$JS.API.INFO'),
  ],
  subscriber: [
    ...OPERATING,
    ...LOG,
    ...OWNERSHIP,
    ...REGISTRATION,
    ...ALERT,
    ...TOPIC,
    ...PEERS,
    ...TICKETS,
    ...ALL_TICKETS,
    ...WEBHOOK,
    ...UNSTORED,
  ],
  operator: [...LOG, ...OWNERSHIP, ...ALERT, ...UNSTORED, ...publish('relay.beat.b1')],
}

describe('what a role must not', () => {
  test.each(ROLES)('the server refuses the %s', async (role) => {
    const nats = await as(role)
    const attempts = [...nobody(role), ...NEVER[role]]
    expect(await refusals(nats, attempts)).toEqual(attempts)
    expect(server.child.output).toMatch(/(Publish|Subscription) Violation/)
  })
})

describe('what a role must', () => {
  /** Does the work as a role, and expects the server to have refused nothing of it. */
  async function unhindered(role: Role, work: (nats: Nats) => Promise<void>): Promise<void> {
    const before = server.child.output.length
    await work(await as(role))
    expect(server.child.output.slice(before)).not.toContain('Violation')
  }

  test('an edge makes tickets and opens them', async () => {
    await unhindered('edge', async (nats) => {
      const ticket = { client: 'c1', subscribe: ['run:*'], endsAtMs: Date.now() + 60_000 }
      const text = await makeTicket(nats, 'a token', ticket, 10_000)
      expect(await openTicket(nats, text ?? '')).toMatchObject(ticket)
      expect(await openTicket(nats, text ?? '')).toMatchObject(ticket)
    })
  })

  test('a producer publishes to topics, one by one and in an atomic batch, and is told what is stored', async () => {
    await unhindered('producer', async (nats) => {
      expect(await nats.js.publish('topic.orders.42', 'paid')).toMatchObject({
        stream: STREAM.topics,
        duplicate: false,
      })
      const messages = [1, 2, 3].map((n) => ({
        subject: topicSubject(`orders.${n}`),
        payload: new TextEncoder().encode(`event ${n}`),
        headers: headers(),
      }))
      expect(await publishBatch(nats, messages, 5000)).toMatchObject({ stream: STREAM.topics })
    })
  })

  test('a subscriber reads what is live and what is stored, by consumers of both kinds and without any', async () => {
    const relay = await as('relay')
    const edge = await as('edge')
    await unhindered('subscriber', async (nats) => {
      const heard: string[] = []
      nats.nc.subscribe('live.>', { callback: (_, message) => void heard.push(message.subject) })
      await nats.nc.flush()
      await writeRange(relay, 'read', 1, 300)
      await writeTopics(edge, 'read', 1, 300)
      await eventually('all of it is heard', () => heard.length >= 600)
      for (const [stream, subject] of [
        ['RUNS', 'run.read'],
        ['TOPICS', 'topic.read'],
      ] as const) {
        const pull = await nats.js.consumers.get(stream, { filter_subjects: subject })
        expect(await take(await pull.consume(), 300)).toBe(300)
        const push = await nats.js.consumers.getPushConsumer(stream, { filter_subjects: [subject] })
        expect(await take(await push.consume(), 300)).toBe(300)
        expect(await directGet(nats, stream, { multi_last: [subject] }, 2000)).toHaveLength(1)
      }
      // So much at once that the server wants to know how far its reader has come.
      for (let n = 0; n < 300; n++) await writeKey(edge, BUCKET.runs, `r${n}`, 'x'.repeat(10_000))
      for (const bucket of [BUCKET.runs, BUCKET.status, BUCKET.claims, BUCKET.heartbeats]) {
        const over = new AbortController()
        const seen = new Set<string>()
        const watching = watchKeys(nats, bucket, ({ key }) => void seen.add(key), over.signal)
        if (bucket === BUCKET.runs) await eventually('all keys are seen', () => seen.size === 300)
        expect((await listKeys(nats, bucket, over.signal)).length).toBe(seen.size)
        over.abort()
        await watching
      }
      expect((await readKey(nats, BUCKET.runs, 'r7')).value).toHaveLength(10_000)
    })
  })
})

test('a subscriber cannot have a consumer write into a stream for it', async () => {
  const [nats, edge, operator] = await Promise.all((['subscriber', 'edge', 'operator'] as const).map(as))
  if (nats === undefined || edge === undefined || operator === undefined) throw new Error('not connected')
  await writeTopics(edge, 'forged', 1, 5)
  const kept = async () => (await operator.jsm.streams.info(STREAM.runs, { subjects_filter: 'run.forged' })).state
  for (const subject of ['run.forged', '$KV.runs.forged']) {
    await nats.jsm.consumers.add(STREAM.topics, {
      name: nuid.next(),
      deliver_subject: subject,
      filter_subject: 'topic.forged',
    })
  }
  await steadily('nothing is stored', async () => (await kept()).subjects === undefined, 1000)
  expect((await readKey(operator, BUCKET.runs, 'forged')).value).toBeNull()
})

/** How many came, up to as many as are waited for. */
async function take(source: AsyncIterable<unknown>, count: number): Promise<number> {
  let taken = 0
  for await (const _ of source) if (++taken >= count) break
  return taken
}
