import { hostname } from 'node:os'
import { createLog } from '@baton/service/log'
import { orExit, runService } from '@baton/service/run-service'
import { sleep, whenAborted } from '@baton/service/sleep'
import { processRegistry } from '@baton/service/metrics'
import { connectNats, type Nats } from '@baton/store/connect'
import { makeTopology } from '@baton/store/make-topology'
import { sayRefusals } from '@baton/store/refusals'
import { sayWaiting } from '@baton/store/say-waiting'
import { readEdgeConfig } from './config.ts'
import { Edge } from './edge.ts'
import { close, listen } from './server.ts'

const config = orExit(() => readEdgeConfig(process.env))
const log = createLog('edge', config.logLevel)

await runService(main, { log, graceMs: config.graceMs })

async function main(stop: AbortSignal): Promise<void> {
  const edge = new Edge(config.edge, log, processRegistry())
  const { server, port } = await listen(edge, config.host, config.port)
  log.info({ url: `http://${config.host}:${port}`, port }, 'edge.listening')

  const over = new AbortController()
  const connecting = followNats(edge, over.signal)
  const stopped = whenAborted(stop)
  await Promise.race([stopped, connecting.then(untilClosed)])

  await drain(edge)
  edge.close()
  await close(server, config.graceMs / 5)
  over.abort(new Error('the edge has drained'))
  const nats = await connecting.catch(() => null)
  await nats?.nc.close()
}

/** The client reconnects for ever; should it give up all the same, the process must not live on without NATS. */
async function untilClosed({ nc }: Nats): Promise<never> {
  throw new Error('the connection to NATS is closed for good', { cause: await nc.closed() })
}

/** Connects however long it takes; until then the edge answers, but is not ready. */
async function followNats(edge: Edge, signal: AbortSignal): Promise<Nats> {
  const name = `baton-edge-${hostname()}-${process.pid}`
  const nats = await connectNats({ ...config.nats, name }, signal, sayWaiting(log, config.nats))
  sayRefusals(nats, log)
  await makeTopology(nats, config.topology, log, signal)
  edge.use(nats, signal)
  log.info('edge.ready')
  return nats
}

/** Load balancers need a moment to see that an edge is not ready any more; until then it still answers. */
async function drain(edge: Edge): Promise<void> {
  edge.beginDrain()
  const { graceMs } = config
  await sleep(Math.min(500, graceMs / 10), new AbortController().signal)
  const clients = edge.clients.size
  await edge.sayGoodbye(graceMs * 0.6)
  log.info({ clients }, 'edge.drained')
}
