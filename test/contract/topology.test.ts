import { expect, test } from 'vitest'
import { STREAM } from '@baton/store/names'
import { createLog } from '@baton/service/log'
import { makeTopology } from '@baton/store/make-topology'
import { applyTopology, desiredTopology, ensureTopology, planTopology } from '@baton/store/topology'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { writeRange } from '../kit/write-events.ts'

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
