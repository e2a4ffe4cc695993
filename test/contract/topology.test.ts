import type { StreamConfig } from '@nats-io/jetstream'
import { expect, test } from 'vitest'
import { readConfig } from '@baton/service/config'
import { commonVariables, topologyOf } from '@baton/service/variables'
import { STREAM } from '@baton/store/names'
import { createLog } from '@baton/service/log'
import { makeTopology } from '@baton/store/make-topology'
import { applyTopology, desiredTopology, ensureTopology, planTopology } from '@baton/store/topology'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { writeRange } from '../kit/write-events.ts'

const DAY_NS = 86_400 * 1e9
const GiB = 2 ** 30

test('where nothing is said, streams and buckets have the names, subjects and limits that others count on', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  const options = topologyOf(readConfig({}, commonVariables))
  await applyTopology(nats, await planTopology(nats, options), { allowLoss: true })
  const configs = new Map<string, StreamConfig>()
  for await (const { config } of nats.jsm.streams.list()) configs.set(config.name, config)
  const buckets = ['runs', 'status', 'claims', 'heartbeats', 'tickets']
  expect([...configs.keys()].sort()).toEqual(
    ['RUNS', 'TOPICS', 'ALERTS', ...buckets.map((name) => `KV_${name}`)].sort(),
  )
  expect(configs.get('RUNS')).toMatchObject({
    subjects: ['run.*', 'run.*.owner', 'run.*.cursor'],
    republish: { src: 'run.*', dest: 'live.run.{{wildcard(1)}}' },
    max_msgs_per_subject: 10_000,
    max_age: 7 * DAY_NS,
    max_bytes: 10 * GiB,
    num_replicas: 1,
  })
  expect(configs.get('TOPICS')).toMatchObject({
    subjects: ['topic.>'],
    republish: { src: 'topic.>', dest: 'live.topic.>' },
    max_msgs_per_subject: 1000,
    max_age: DAY_NS,
    max_bytes: 10 * GiB,
    duplicate_window: 120 * 1e9,
  })
  expect(configs.get('ALERTS')).toMatchObject({ subjects: ['alert.run.*'], max_age: 7 * DAY_NS })
  // What is wanted stays until somebody deletes it, and no value uncovers an older one.
  for (const name of buckets) expect(configs.get(`KV_${name}`)).toMatchObject({ max_age: 0, max_msgs_per_subject: 1 })
  for (const { description, metadata } of configs.values()) {
    expect(description).toMatch(/^Baton: ./)
    expect(metadata).toMatchObject({ app: 'baton', schema: '1' })
  }
})

const kinds = (changes: readonly { kind: string }[]) => [...new Set(changes.map(({ kind }) => kind))]

test('set-up is idempotent, also when several do it at once', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  for (const { name } of desiredTopology(SMALL_TOPOLOGY)) await nats.jsm.streams.delete(name ?? '')
  await Promise.all([1, 2, 3].map(() => ensureTopology(nats, SMALL_TOPOLOGY)))
  expect(kinds(await planTopology(nats, SMALL_TOPOLOGY))).toEqual(['same'])
})

test('a difference is shown, and applied by who asks for it', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  await writeRange(nats, 'r1', 1, 5)
  const raised = { ...SMALL_TOPOLOGY, runEvents: 20_000 }
  const plan = await ensureTopology(nats, raised)
  expect(plan.filter(({ kind }) => kind === 'update')).toMatchObject([
    { name: STREAM.runs, fields: [{ field: 'max_msgs_per_subject', from: 10_000, to: 20_000, refused: null }] },
  ])
  expect((await nats.jsm.streams.info(STREAM.runs)).config.max_msgs_per_subject).toBe(10_000)
  await applyTopology(nats, plan)
  const { config } = await nats.jsm.streams.info(STREAM.runs)
  expect(config.max_msgs_per_subject).toBe(20_000)
  // Since when the higher cap holds: before it, "fewer than the cap are kept" proves nothing.
  expect(config.metadata?.['raised_at']).toBe('5')
  expect(kinds(await planTopology(nats, raised))).toEqual(['same'])
})

test('a change that would delete stored events is refused whole, unless it is asked for', async () => {
  await using log = await LogServer.start()
  const { nats } = log
  await writeRange(nats, 'r1', 1, 5)
  const lower = { ...SMALL_TOPOLOGY, runEvents: 3, topicEvents: 5000 }
  const plan = await planTopology(nats, lower)
  await expect(applyTopology(nats, plan)).rejects.toThrow(/RUNS.max_msgs_per_subject 10000 → 3/)
  expect((await nats.jsm.streams.info(STREAM.topics)).config.max_msgs_per_subject).toBe(SMALL_TOPOLOGY.topicEvents)
  await applyTopology(nats, plan, { allowLoss: true })
  expect((await nats.jsm.streams.info(STREAM.runs)).state.messages).toBe(3)
})

test('three replicas on a server that is alone are refused with the reason, not waited for', async () => {
  await using log = await LogServer.start()
  await log.nats.jsm.streams.delete(STREAM.alerts)
  const making = makeTopology(
    log.nats,
    { ...SMALL_TOPOLOGY, replicas: 3 },
    createLog('test', 'silent'),
    AbortSignal.timeout(5000),
  )
  await expect(making).rejects.toMatchObject({ code: 'unsupported' })
})
