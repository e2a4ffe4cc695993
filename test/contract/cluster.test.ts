import { connectNats, type Nats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { makeReplicas } from '../kit/log-server.ts'
import { NatsCluster, NODES } from '../kit/nats-cluster.ts'
import { readLogsOf } from '../kit/read-log.ts'
import { writeRange } from '../kit/write-events.ts'

/** The cluster the tests run on does what they believe of it. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let cluster: NatsCluster
let nats: Nats
beforeAll(async () => {
  cluster = await NatsCluster.start({ parted: true })
  nats = await connectNats({ servers: cluster.url.split(','), name: 'test' }, AbortSignal.timeout(20_000))
  await makeReplicas(nats)
})
beforeEach(() => cluster.heal())
afterAll(async () => {
  await nats.nc.close()
  await cluster[Symbol.asyncDispose]()
})

const stored = async (node: string, run: string): Promise<number> =>
  (await readLogsOf(nats, node)).get(run)?.length ?? 0

test('what is acknowledged is kept by every node, and each is read by itself', async () => {
  await writeRange(nats, 'one', 1, 50)
  for (const node of NODES) {
    await eventually(`${node} has it all`, async () => (await stored(node, 'one')) === 50)
  }
})

test('a paused follower has less than the others, and catches up', async () => {
  const follower = await cluster.followerOf(STREAM.runs)
  await writeRange(nats, 'two', 1, 10)
  follower.pause()
  // The kernel stops its threads one after the other.
  const isSilent = () =>
    follower.monitor('/healthz').then(
      () => false,
      () => true,
    )
  await eventually('it says nothing', isSilent)
  await writeAgain('two', 11, 20)
  follower.resume()
  await eventually('it has caught up', async () => (await stored(follower.name, 'two')) >= 20)
})

test('a leader that is killed is followed by another, with everything that was acknowledged', async () => {
  const leader = await cluster.leaderOf(STREAM.runs)
  await writeRange(nats, 'three', 1, 10)
  await leader.kill()
  const next = await cluster.leaderOf(STREAM.runs)
  expect(next.name).not.toBe(leader.name)
  await writeAgain('three', 11, 20)
  await leader.start()
  await cluster.healthy()
  for (const node of NODES) expect(await stored(node, 'three')).toBeGreaterThanOrEqual(20)
})

test('a leader that is parted from the others stores nothing, and they go on without it', async () => {
  await cluster.lead(nats, STREAM.runs, cluster.node('nats-3'))
  const alone = await connectNats({ servers: [cluster.node('nats-3').url], name: 'alone' }, AbortSignal.timeout(20_000))
  // A client that is told of the other nodes would go to them: this one must not know of them.
  const between = [cluster.between('nats-3', 'nats-1'), cluster.between('nats-3', 'nats-2')]
  for (const proxy of between) {
    proxy.refuses = true
    proxy.cut()
  }
  await expect(writeRange(alone, 'four', 1, 1)).rejects.toThrow()
  const rest = await connectNats({ servers: [cluster.node('nats-1').url], name: 'rest' }, AbortSignal.timeout(20_000))
  await eventually('the others have a leader and take writes', async () => (await writeRange(rest, 'four', 2, 2)) > 0, {
    withinMs: 30_000,
  })
  await Promise.all([alone.nc.close(), rest.nc.close()])
  await cluster.heal()
  for (const node of NODES) {
    const log = (await readLogsOf(nats, node)).get('four')
    expect(log?.map((entry) => entry.kind === 'event' && entry.event.index)).toEqual([2])
  }
})

/** Writes through an election: an event may be stored twice, none is left out. */
async function writeAgain(run: string, from: number, to: number): Promise<void> {
  for (let index = from; index <= to; index++) {
    await eventually(`event ${index} is stored`, async () => (await writeRange(nats, run, index, index)) > 0, {
      withinMs: 30_000,
    })
  }
}
