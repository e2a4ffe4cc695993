import { STREAM } from '@baton/store/names'
import { expect } from 'vitest'
import { eventually, steadily } from '../kit/eventually.ts'
import { ManyRuns } from '../kit/many-runs.ts'
import { partRelays } from '../kit/relay-connection.ts'
import { testWithSystem } from '../kit/system.ts'

/** The promises with three replicas, while nodes pause, are away, or are another process's. */
const test = testWithSystem({ relays: 2, edges: 2, cluster: {} })

const SCRIPT = { events: 1000, perSecond: 50 }
const ROUNDS = 3

test('I1 I2: the life of a run on three replicas, and the same log on each', async ({ system, run }) => {
  await using runs = await ManyRuns.start(system, run, 1, { events: 500, perSecond: 200 })
  const { config } = await system.store.jsm.streams.info(STREAM.runs)
  expect(config.num_replicas).toBe(3)
  await runs.finish()
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

test('I1 I8: while two of three nodes are away an agent is held back, and nothing it says is dropped', async ({
  system,
  run,
}) => {
  const data = { dataBytes: 2000, perSecond: 2000 }
  await using runs = await ManyRuns.start(system, run, 1, { events: 9000, ...data })
  const owner = await system.owner(`${run}-1`)
  const queued = async () => {
    const text = await (await fetch(`${owner.url}/metrics`)).text()
    return Number(/^baton_relay_queue_bytes (\S+)$/m.exec(text)?.[1])
  }
  const [one, other] = system.cluster.others((await system.cluster.nodeOf('baton-relay-')).name)
  await Promise.all([one?.kill(), other?.kill()])
  await eventually('the queue is full', async () => (await queued()) > 2 ** 20)
  const most: number[] = []
  await steadily('it stays at its bound', async () => most.push(await queued()) > 0, 3000)
  expect(Math.max(...most)).toBeLessThan(2 * 2 ** 20)
  await Promise.all([one?.start(), other?.start()])
  await runs.finish()
  // It was read slowly, not cut off and asked again.
  const { connections } = (await runs.followed[0]?.job.emission()) ?? {}
  expect(connections).toHaveLength(1)
})

test('I6: a relay killed with -9 at one node is replaced at once by one at another', async ({ system, run }) => {
  await partRelays(system)
  await using runs = await ManyRuns.start(system, run, 2, { ...SCRIPT, events: 1300 })
  // A busy machine may answer a ping so late that silence is what convicts; the notice must have done it once.
  const found: string[] = []
  while (!found.includes('notice') && found.length < ROUNDS) {
    const owner = await system.owner(`${run}-1`)
    const { boot } = await eventually('its claim', () => system.claim(`${run}-1`))
    await owner.child.kill()
    const successor = system.relays.find((relay) => relay !== owner)
    const { how } = await eventually('it is found dead', () =>
      successor?.child.logLines.find((line) => line['event'] === 'peer.dead' && line['peer_boot'] === boot),
    )
    found.push(String(how))
    await runs.flow()
    await owner.restart()
  }
  expect(found).toContain('notice')
  await runs.finish()
})
