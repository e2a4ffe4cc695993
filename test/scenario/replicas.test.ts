import { STREAM } from '@baton/store/names'
import { expect } from 'vitest'
import type { LogEntry } from '../kit/history.ts'
import { ManyRuns, ownersAfter } from '../kit/many-runs.ts'
import { testWithSystem, type System } from '../kit/system.ts'

/** The promises with three replicas, while nodes die, pause and come back. A leader's death stops writes for seconds. */
const test = testWithSystem({ relays: 2, edges: 2, cluster: {} })

const RUNS = 16
const SCRIPT = { events: 1500, perSecond: 50 }

test('I1 I2: the life of a run on three replicas, and the same log on each', async ({ system, run }) => {
  await using runs = await ManyRuns.start(system, run, 1, { events: 500, perSecond: 200 })
  const { config } = await system.store.jsm.streams.info(STREAM.runs)
  expect(config.num_replicas).toBe(3)
  await runs.finish()
})

/** No other relay than its own has stored an owner record of a run after this sequence. */
function expectKept(
  owners: ReadonlyMap<string, string>,
  logs: ReadonlyMap<string, readonly LogEntry[]>,
  since: number,
) {
  for (const [run, boot] of owners) {
    expect([run, ownersAfter(logs.get(run) ?? [], since).filter((one) => one !== boot)]).toEqual([run, []])
  }
}

const lastSequence = async (system: System) => (await system.store.jsm.streams.info(STREAM.runs)).state.last_seq

test('I1 I2 I3 I4: the leader of the log killed with 16 runs writing costs nothing, and no relay a run', async ({
  system,
  run,
}) => {
  await using runs = await ManyRuns.start(system, run, RUNS, SCRIPT)
  const owners = await runs.owners()
  const leader = await system.cluster.leaderOf(STREAM.runs)
  const since = await lastSequence(system)
  await leader.kill()
  await runs.flow()
  expect((await system.cluster.leaderOf(STREAM.runs)).name).not.toBe(leader.name)
  await leader.start()
  expectKept(owners, await runs.finish(), since)
})

test('I1 I2 I3: each node killed in turn, with whoever is connected to it, costs nothing, and no relay a run', async ({
  system,
  run,
}) => {
  await using runs = await ManyRuns.start(system, run, 4, { ...SCRIPT, events: 3000 })
  const owners = await runs.owners()
  const since = await lastSequence(system)
  for (const node of system.cluster.nodes) {
    await node.kill()
    await runs.flow()
    await node.start()
    await system.cluster.healthy()
  }
  expectKept(owners, await runs.finish(), since)
})

test('I1 I2 I3: a follower that is paused stops nobody', async ({ system, run }) => {
  await using runs = await ManyRuns.start(system, run, 4, SCRIPT)
  const follower = await system.cluster.followerOf(STREAM.runs)
  follower.pause()
  // Those that were connected to it have to notice and to go elsewhere.
  await runs.flow(100)
  follower.resume()
  await runs.finish()
})

test('I1 I2 I3: a leader that is paused and comes back, believing that it leads, has no say', async ({
  system,
  run,
}) => {
  await using runs = await ManyRuns.start(system, run, 4, SCRIPT)
  const leader = await system.cluster.leaderOf(STREAM.runs)
  leader.pause()
  await runs.flow()
  leader.resume()
  await runs.finish()
})

test('I1 I2 I4: all nodes killed at once and started again cost nothing', async ({ system, run }) => {
  await using runs = await ManyRuns.start(system, run, 4, SCRIPT)
  await Promise.all(system.cluster.nodes.map((node) => node.kill()))
  await Promise.all(system.cluster.nodes.map((node) => node.start()))
  await runs.finish()
})
