import { expect, test } from 'vitest'
import { connectNats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import { replayRun } from '@baton/store/replay'
import { eventually, steadily } from '../kit/eventually.ts'
import { makeReplicas } from '../kit/log-server.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { writeRange } from '../kit/write-events.ts'

const EVENTS = 1000

test('a replay whose consumer dies with its node, in the middle of a page, goes on with another', async () => {
  await using cluster = await NatsCluster.start()
  const [home] = cluster.nodes
  if (home === undefined) throw new Error('a cluster has nodes')
  const at = (url: string) => connectNats({ servers: [url], name: 'test' }, AbortSignal.timeout(20_000))
  const [nats, reader] = [await at(home.url), await at(home.urlOf('edge'))]
  try {
    await makeReplicas(nats)
    await writeRange(nats, 'long', 1, EVENTS)
    const over = AbortSignal.timeout(60_000)
    // Whose node is the one this test is connected to, or leads the log, would be missed for other reasons.
    const opened = await eventually('a consumer lives on a follower', async () => {
      const replay = replayRun(reader, 'long', 0, over)
      const { value: page } = await replay.next()
      // Those of the tries before are deleted after a moment.
      const consumer = await eventually('there is one consumer', async () => {
        const consumers = await nats.jsm.consumers.list(STREAM.runs).next()
        return consumers.length === 1 && consumers[0]
      })
      const node = consumer.cluster?.leader
      const logLeader = await cluster.leaderOf(STREAM.runs)
      if (page && node !== undefined && node !== logLeader.name && node !== home.name) return { replay, page, node }
      await replay.return()
      return null
    })
    const events = [...opened.page]
    const node = cluster.node(opened.node)
    // It has taken the question, and will not answer it.
    node.pause()
    const next = opened.replay.next()
    let answered = false
    next.then(() => (answered = true)).catch(() => undefined)
    await steadily('nothing comes', () => !answered, 1000)
    await node.kill()
    // While the cluster elects, nobody can make a consumer: who reads then is told, and reads on from where it stood.
    const [answer] = await Promise.allSettled([next])
    if (answer.status === 'rejected') expect(answer.reason).toMatchObject({ code: 'unavailable' })
    else events.push(...(answer.value.value ?? []))
    await opened.replay.return()
    await eventually(
      'all of it is read',
      async () => {
        for await (const page of replayRun(reader, 'long', events.at(-1)?.sequence ?? 0, over)) events.push(...page)
        return events.length >= EVENTS
      },
      { withinMs: 30_000 },
    )
    expect(events.map(({ index }) => index)).toEqual(Array.from({ length: EVENTS }, (_, at) => at + 1))
    cluster.expectNoRefusal()
  } finally {
    await Promise.all([nats.nc.close(), reader.nc.close()])
  }
}, 120_000)
