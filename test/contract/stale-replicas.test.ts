import type { Nats } from '@baton/store/connect'
import { connectNats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { indexes, range } from '../kit/follow.ts'
import { askTicket, BY_SECRET } from '../kit/issuer.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { makeReplicas } from '../kit/log-server.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { SseClient, type Received } from '../kit/sse-client.ts'
import { sequenceOf, writeTopics } from '../kit/topics.ts'
import { wantRun } from '../kit/want-run.ts'
import { writeRange } from '../kit/write-events.ts'

/**
 * Readers at a replica that is behind, or at a leader that no longer is one: they wait or say that they cannot tell, and
 * never that something is not there. The edge of these tests knows nats-3 and nothing else.
 */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let cluster: NatsCluster
/** Connected to the two others. */
let nats: Nats
let edge: LocalEdge
/** Two edges that ask for tokens: one where the test is, one at the third node. */
let near: LocalEdge
let far: LocalEdge
beforeAll(async () => {
  cluster = await NatsCluster.start({ parted: true, advertised: false })
  nats = await connectNats(
    { servers: [cluster.node('nats-1').url, cluster.node('nats-2').url], name: 'test' },
    AbortSignal.timeout(20_000),
  )
  await makeReplicas(nats)
  edge = await LocalEdge.start(cluster.node('nats-3').urlOf('edge'))
  near = await LocalEdge.start(cluster.node('nats-1').urlOf('edge'), { auth: BY_SECRET })
  far = await LocalEdge.start(cluster.node('nats-3').urlOf('edge'), { auth: BY_SECRET })
})
beforeEach(async () => {
  for (const proxy of toThird()) proxy.delayMs = 0
  await cluster.heal()
})
afterEach(() => cluster.expectNoRefusal())
afterAll(async () => {
  for (const one of [edge, near, far]) await one[Symbol.asyncDispose]()
  await nats.nc.close()
  await cluster[Symbol.asyncDispose]()
})

const toThird = () => [cluster.between('nats-3', 'nats-1'), cluster.between('nats-3', 'nats-2')]

const READ = [STREAM.runs, STREAM.topics, 'KV_runs', 'KV_status', 'KV_claims', 'KV_tickets']

/** The address of a stream, with a ticket that was made a moment ago where the test is. */
async function ticketed(path: string): Promise<string> {
  const response = await askTicket(near, { baton: { subscribe: ['run:*', 'topic:>'] } })
  if (response.status !== 201) throw new Error(`no ticket: ${response.status} ${await response.text()}`)
  return `${path}ticket=${((await response.json()) as { ticket: string }).ticket}`
}

/** The third node, which leads nothing that is read here, hears the others so much later, and they it. */
async function lag(ms: number): Promise<void> {
  for (const stream of READ) await cluster.lead(nats, stream, cluster.node('nats-1'))
  for (const proxy of toThird()) proxy.delayMs = ms
}

function partThird(): void {
  for (const proxy of toThird()) {
    proxy.refuses = true
    proxy.cut()
  }
}

const first = (client: SseClient): Promise<Received> => client.until('a first frame', (frame) => frame.data !== null)

describe('a replica that is behind', () => {
  /** There and back it is less than a request may take. */
  const LAG_MS = 250

  test('a run that was registered a moment ago is known: never a 404', async () => {
    await lag(LAG_MS)
    for (let at = 0; at < 5; at++) {
      await wantRun(nats, `fresh-${at}`)
      await using client = new SseClient({ urls: [`${edge.url}/runs/fresh-${at}/events`], reconnects: false })
      expect((await first(client)).event).toBe('stream.open')
    }
  })

  test('a ticket that was made a moment ago opens: never a 401', async () => {
    await lag(LAG_MS)
    for (let round = 0; round < 5; round++) {
      const urls = [`${far.url}${await ticketed('/topics/events?topic=any&')}`]
      await using client = new SseClient({ urls, reconnects: false })
      expect((await first(client)).event).toBe('stream.open')
    }
  })

  test('a client that has more than the replica goes on where it is: no reset, no hole', async () => {
    await writeRange(nats, 'ahead', 1, 6)
    await lag(LAG_MS)
    for (let round = 1; round <= 4; round++) {
      const had = 5 * round + 5
      const last = await writeRange(nats, 'ahead', had - 3, had)
      await using client = new SseClient({
        urls: [`${edge.url}/runs/ahead/events`],
        lastEventId: `${last}-${had}`,
        reconnects: false,
      })
      expect(await first(client)).toMatchObject({ event: 'stream.open', id: `${last}-${had}` })
      await writeRange(nats, 'ahead', had + 1, had + 1)
      await client.untilEvents(1)
      expect(indexes(client)).toEqual([had + 1])
    }
  })

  test('who follows from the start gets everything, once', async () => {
    await lag(LAG_MS)
    const writing = writeRange(nats, 'growing', 1, 40)
    await using client = new SseClient({ urls: [`${edge.url}/runs/growing/events`] })
    await wantRun(nats, 'growing')
    await writing
    await client.untilEvents(40)
    expect(indexes(client)).toEqual(range(1, 40))
  })

  test('a topic that somebody has published to a moment ago is followed from there', async () => {
    await lag(LAG_MS)
    for (const query of ['topic=stale.one', 'topic=stale.*&topic=other']) {
      const sequence = await writeTopics(nats, 'stale.one', 1, 10)
      const view = (await (await fetch(`${edge.url}/topics/stale.one`)).json()) as { position: string }
      expect(sequenceOf({ id: view.position })).toBeGreaterThanOrEqual(sequence)
      await using client = new SseClient({
        urls: [`${edge.url}/topics/events?${query}`],
        lastEventId: view.position,
        reconnects: false,
      })
      expect((await first(client)).event).toBe('stream.open')
      await writeTopics(nats, 'stale.one', 11, 20)
      await client.untilEvents(10)
      expect(client.events.map(({ data }) => data)).toEqual(range(11, 20).map((n) => `stale.one ${n}`))
    }
  })
})

describe('a leader that is cut off with this edge', () => {
  test('tells nobody that a run, a position, or a ticket is not there', async () => {
    const third = cluster.node('nats-3')
    await writeRange(nats, 'cut', 1, 5)
    for (const stream of READ) await cluster.lead(nats, stream, third)
    await cluster.leadAll(third)
    partThird()
    const last = await eventually('the others have a leader', () => writeRange(nats, 'cut', 6, 6), { withinMs: 30_000 })
    expect(await answer('cut', `${last}-6`)).toBe('200 stream.busy')
    await eventually('a run is registered there', async () => (await wantRun(nats, 'beyond'), true), {
      withinMs: 30_000,
    })
    expect(await answer('beyond', null)).toBe('200 stream.busy')
    const path = await eventually('a ticket is made there', () => ticketed('/topics/events?topic=any&'), {
      withinMs: 30_000,
    })
    expect(await answerTo(`${far.url}${path}`, null)).toBe('200 stream.busy')
  })
})

/** The status, and the first event of a stream. */
const answer = (run: string, lastEventId: string | null) => answerTo(`${edge.url}/runs/${run}/events`, lastEventId)

async function answerTo(url: string, lastEventId: string | null): Promise<string> {
  const id = lastEventId === null ? {} : { 'last-event-id': lastEventId }
  const over = new AbortController()
  const response = await fetch(url, {
    headers: { accept: 'text/event-stream', ...id },
    signal: over.signal,
  })
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += new TextDecoder().decode(chunk)
    if (text.includes('event: ')) break
  }
  over.abort()
  return `${response.status} ${/event: (\S+)/.exec(text)?.[1]}`
}
