import { BUCKET, bucketStream, STREAM } from '@baton/store/names'
import type { AgentJob } from '../kit/agents.ts'
import { check } from '../kit/checker.ts'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { OVERLAP_MS } from '../kit/judge.ts'
import type { NodeName } from '../kit/nats-cluster.ts'
import type { NatsServer } from '../kit/nats-server.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { partRelays, relayConnection } from '../kit/relay-connection.ts'
import { System } from '../kit/system.ts'

const RUNS = 24
const PER_SECOND = 20
/** A follower that hears nothing for 4 s or more wants to lead, and stops the others by that. */
const HELD_MS = 3000

/**
 * A node of NATS hears nothing of what is stored, but answers reads all the same; so it does for less time than it takes
 * to elect another leader. A relay is killed, and its successor must find out what was stored of each of its runs: it is
 * connected to the node that is behind, which answers its reads itself.
 */
export async function followerBehind(source?: string): Promise<Violation[]> {
  const own = source === undefined ? {} : { source }
  await using system = await System.start({ relays: 2, edges: 1, cluster: { parted: true }, ...own })
  await using recorder = await LogRecorder.start(system.natsUrl)
  const { cluster } = system
  await partRelays(system)
  const jobs = new Map(
    Array.from({ length: RUNS }, (_, at) => {
      const run = `provoked-${at}`
      return [run, system.agents.job(run, { events: 1_000_000, perSecond: PER_SECOND })] as const
    }),
  )
  for (const [run, { url }] of jobs) await system.register(run, { url })
  const owner = await system.owner('provoked-0')
  const successor = system.relays.find((relay) => relay !== owner) ?? owner
  const behind = nameOf(await cluster.nodeOf(relayConnection(successor)))
  const [leader, other] = cluster.others(behind).map(nameOf) as [NodeName, NodeName]
  for (const stream of [STREAM.runs, ...Object.values(BUCKET).map(bucketStream)]) {
    await cluster.lead(system.store, stream, cluster.node(leader))
  }
  const stored = () =>
    eventually('the log answers', async () => (await system.store.jsm.streams.info(STREAM.runs)).state.messages)
  const untilStored = (count: number) =>
    eventually(`the log has ${count} messages`, async () => (await stored()) >= count, { withinMs: 30_000 })
  await untilStored((await stored()) + 2 * RUNS * PER_SECOND)
  // What replicates goes over a connection of its own between two nodes; what is asked for goes over others.
  const held = [leader, other].map((name) => cluster.between(behind, name).holdAt('down', '$NRG.'))
  const flow = () => held.forEach((one) => one.flow())
  const flowing = setTimeout(flow, HELD_MS)
  try {
    // A few of each run are stored meanwhile; on a busy machine its successor needs the rest of the time. NATS is not asked:
    // it might be this very node that answers.
    await emitted(jobs, 3)
    await owner.child.kill()
    await untilStored((await stored()) + RUNS * PER_SECOND)
    await cluster.healthy()
  } finally {
    // Whatever was thrown: later there are no proxies any more that it could let flow.
    clearTimeout(flowing)
    flow()
  }
  const { logs } = await recorder.end()
  const histories = await Promise.all(
    [...jobs].map(async ([run, job]) => {
      return { run, jobs: [await job.emission()], log: logs.get(run) ?? [], clients: [], over: false }
    }),
  )
  return histories.flatMap((one) => check(one, { overlapMs: OVERLAP_MS, nowMs: Date.now(), ownersKnown: false }))
}

const nameOf = ({ name }: NatsServer) => name as NodeName

/** Waits until each of the agents has emitted so many more. */
async function emitted(jobs: ReadonlyMap<string, AgentJob>, more: number): Promise<void> {
  const count = (job: AgentJob) => job.emission().then(({ events }) => events.length)
  const all = [...jobs.values()]
  const had = await Promise.all(all.map(count))
  await eventually('the agents go on', async () => {
    const now = await Promise.all(all.map(count))
    return now.every((events, at) => events >= (had[at] ?? 0) + more)
  })
}
