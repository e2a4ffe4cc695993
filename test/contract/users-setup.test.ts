import { expect, test, vi } from 'vitest'
import { ensureTopology } from '@baton/store/topology'
import { baton as startBaton, batonAnswer } from '../kit/baton.ts'
import { connectAs } from '../kit/connect-as.ts'
import { SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { startEdge, startRelay, type App } from '../kit/process.ts'

// Whole processes one after another: a busy machine takes its time.
vi.setConfig({ testTimeout: 90_000 })

/** Who makes the streams where the users of nats/accounts.conf are. */

const baton = (server: NatsServer, user: 'operator' | 'producer' | 'subscriber', ...args: string[]) =>
  batonAnswer(server.urlOf(user), args, {
    BATON_RUNS_MAX_BYTES: String(SMALL_TOPOLOGY.runsMaxBytes),
    BATON_TOPICS_MAX_BYTES: String(SMALL_TOPOLOGY.topicsMaxBytes),
  })

type Finding = { readonly what: string; readonly verdict: string; readonly detail: string }

async function diagnosis(server: NatsServer, user: 'operator' | 'producer' | 'subscriber') {
  const { code, output } = await baton(server, user, '--json', 'doctor')
  const found = JSON.parse(output.split('\n')[0] ?? '') as Finding[]
  return {
    code,
    of: (what: string) => found.find((one) => one.what === what),
    lacks: found.flatMap(({ what, detail }) => (what === 'rights' ? [detail] : [])),
  }
}

test('a relay and an edge that may not make what is missing say so once, wait unready, and go on when it is there', async () => {
  await using server = await NatsServer.start({ users: true })
  let ready = 0
  const count = (app: App) => (ready++, app)
  const relaying = startRelay('relay-1', { natsUrl: server.urlOf('relay') }).then(count)
  const serving = startEdge('edge-1', { natsUrl: server.urlOf('edge') }).then(count)
  for (const user of ['relay', 'edge']) {
    await server.child.said(
      new RegExp(`"BATON/user:${user}" - Publish Violation - Subject "\\$JS\\.API\\.STREAM\\.CREATE\\.RUNS"`),
    )
  }
  expect(ready).toBe(0)
  // To be away for a moment is no reason to give up.
  await server.restart()
  await using operator = await connectAs(server, 'operator')
  await ensureTopology(operator.nats, SMALL_TOPOLOGY)
  await using relay = await relaying
  await using edge = await serving
  for (const app of [relay, edge]) {
    const said = app.child.logLines.filter((line) => line['event'] === 'topology.missing')
    expect(said).toHaveLength(1)
    expect(said[0]).toMatchObject({
      streams: expect.arrayContaining(['RUNS', 'KV_runs']),
      why: expect.stringMatching(
        /^missing: RUNS, .*This NATS user may not make them; `baton setup` as one that may does$/,
      ),
    })
  }
})

test('the operator sets everything up; another user is told that it may not', async () => {
  await using server = await NatsServer.start({ users: true })
  const refused = await baton(server, 'subscriber', 'setup')
  expect(refused.code).toBe(5)
  expect(refused.output).toMatch(/set up RUNS: this NATS user may not do that/)
  expect((await baton(server, 'operator', 'setup')).output).toMatch(/\+ RUNS: to be made/)
  expect((await baton(server, 'operator', 'setup')).output).toMatch(/RUNS: as it should be/)
})

test('`baton setup` waits for a cluster that has no leader yet, and says so; stopped meanwhile it ends with 130', async () => {
  await using cluster = await NatsCluster.start()
  const [, ...rest] = cluster.nodes
  for (const node of rest) await node.kill()
  const start = () => startBaton(cluster.urlOf('operator'), ['setup'], { BATON_REPLICAS: '3' })
  await using stopped = start()
  await stopped.said(/waiting for NATS: /)
  process.kill(stopped.pid, 'SIGINT')
  expect(await stopped.exited, stopped.output).toEqual({ code: 130, signal: null })
  await using setup = start()
  await setup.said(/waiting for NATS: /)
  for (const node of rest) await node.start()
  expect(await setup.exited, setup.output).toEqual({ code: 0, signal: null })
  await using operator = await connectAs(cluster, 'operator')
  const streams = await operator.nats.jsm.streams.list().next()
  expect(streams.map(({ config }) => config.num_replicas)).toEqual(Array.from({ length: 8 }, () => 3))
})

test('doctor says which right its user lacks, and the operator lacks none', async () => {
  await using server = await NatsServer.start({ users: true })
  await baton(server, 'operator', 'setup')
  await using _relay = await startRelay('relay-1', { natsUrl: server.urlOf('relay') })
  const { code, of } = await diagnosis(server, 'operator')
  expect(of('RUNS')).toMatchObject({ verdict: 'good' })
  expect(of('disconnect notice')).toMatchObject({ verdict: 'good' })
  expect(of('relays')).toMatchObject({ verdict: 'note' })
  expect(of('registry')).toMatchObject({ verdict: 'good' })
  expect(code).toBe(0)
  const producer = await diagnosis(server, 'producer')
  expect(producer.code).toBe(1)
  expect(producer.lacks).toEqual([
    'this NATS user may not publish to $JS.API.STREAM.INFO.RUNS',
    'this NATS user may not subscribe to nats.disconnect',
    'this NATS user may not subscribe to relay.beat.*',
    'this NATS user may not publish to $JS.API.STREAM.INFO.KV_runs',
  ])
  const subscriber = await diagnosis(server, 'subscriber')
  expect(subscriber.of('RUNS')).toMatchObject({ verdict: 'good' })
  expect(subscriber.of('disconnect notice')).toMatchObject({
    verdict: 'note',
    detail: expect.stringMatching(/not known/),
  })
  expect(subscriber.lacks).toEqual(['this NATS user may not subscribe to nats.disconnect'])
})
