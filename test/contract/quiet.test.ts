import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { connectNats, type Nats } from '@baton/store/connect'
import { Losses } from '@baton/store/losses'
import { STREAM } from '@baton/store/names'
import { StreamViews } from '@baton/store/stream-views'
import { newestBetween } from '@baton/store/timed-log'
import { TimedScope } from '../../apps/edge/src/timed-scope.ts'
import { eventually } from '../kit/eventually.ts'
import { makeReplicas } from '../kit/log-server.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { writeTopic, writeTopics } from '../kit/topics.ts'

/** Is there nothing between two positions? With replicas the answer "nothing" may come from one that lacks what there is. */
vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 })

let cluster: NatsCluster
let nats: Nats
/** An edge's, at the third node, which leads nothing here. */
let far: Nats
/** Whoever may do all, at the same node. */
let tester: Nats
const toThird = () => [cluster.between('nats-3', 'nats-1'), cluster.between('nats-3', 'nats-2')]
const part = { stream: STREAM.topics, subjects: ['topic.quiet.a', 'topic.quiet.b'] }
const position = (sequence: number) => ({ sequence, mark: 1 })
let before: number
let newest: number

beforeAll(async () => {
  cluster = await NatsCluster.start({ parted: true, advertised: false })
  const at = (url: string) => connectNats({ servers: [url], name: 'test' }, AbortSignal.timeout(20_000))
  const third = cluster.node('nats-3')
  ;[nats, far, tester] = [await at(cluster.node('nats-1').url), await at(third.urlOf('edge')), await at(third.url)]
  await makeReplicas(nats)
  await cluster.lead(nats, STREAM.topics, cluster.node('nats-1'))
  before = await writeTopics(nats, 'quiet.a', 1, 3)
  newest = await writeTopic(nats, 'quiet.b', 'the one that matters')
  await writeTopics(nats, 'other', 1, 5)
})
beforeEach(() => cluster.healthy())
afterEach(() => cluster.expectNoRefusal())
afterAll(async () => {
  for (const one of [nats, far, tester]) await one.nc.close()
  await cluster[Symbol.asyncDispose]()
})

const lastSequence = async () => (await nats.jsm.streams.info(STREAM.topics)).state.last_seq

test('a replica that has everything up to there tells the newest, or that there is none', async () => {
  const last = await lastSequence()
  expect(await newestBetween(far, part, before, last)).toBe(newest)
  expect(await newestBetween(far, part, newest, last)).toBe(0)
  expect(await newestBetween(far, part, before, newest - 1)).toBe(0)
})

test('one that is behind cannot tell', async () => {
  const held = toThird().map((proxy) => proxy.holdAt('down', '$NRG.'))
  const late = await writeTopics(nats, 'other', 6, 10)
  const answers = await Promise.all(Array.from({ length: 12 }, () => newestBetween(far, part, newest, late)))
  for (const one of held) one.flow()
  // Whoever of the three answers: what is there is never denied, and what is not is never made up.
  expect(answers.every((answer) => answer === null || answer === 0)).toBe(true)
})

test('where there never was anything nobody can tell', async () => {
  expect(await newestBetween(far, { ...part, subjects: ['topic.never'] }, 0, await lastSequence())).toBeNull()
})

test('I2: the word of one that no longer leads, "there is none", is not taken for quiet', async () => {
  // It sits where the scope asks, and is quicker than who leads now; of everything else it says nothing.
  const liar = tester.nc.subscribe(`$JS.API.STREAM.MSG.GET.${STREAM.topics}`, {
    callback: (_, message) => {
      const none = {
        type: 'io.nats.jetstream.api.v1.stream_msg_get_response',
        error: { code: 404, err_code: 10037, description: 'no message found' },
      }
      message.respond(JSON.stringify(none))
    },
  })
  await tester.nc.flush()
  for (const proxy of toThird()) proxy.delayMs = 30
  try {
    const scope = new TimedScope(
      { nats: far, losses: new Losses(far), views: new StreamViews(far) },
      { key: 'k', name: 'quiet', part, topic: null, runs: [], state: null },
    )
    await eventually('the scope has seen the stream', async () => (await scope.stand()).last.sequence > 0)
    const last = await lastSequence()
    expect(await scope.isQuiet(position(before), position(last))).toBe(false)
    expect(await scope.look(position(before))).toMatchObject({ kind: 'more' })
    expect(await scope.isQuiet(position(newest), position(last))).toBe(true)
    expect(await scope.look(position(newest))).toMatchObject({ kind: 'same', passed: { sequence: last } })
  } finally {
    liar.unsubscribe()
    for (const proxy of toThird()) proxy.delayMs = 0
  }
})
