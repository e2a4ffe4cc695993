import { hostname } from 'node:os'
import { isCode } from '@baton/core/errors'
import { createLog, type Log } from '@baton/service/log'
import { orExit, runService } from '@baton/service/run-service'
import { sleep } from '@baton/service/sleep'
import { collectDefaultMetrics } from '@baton/service/metrics'
import { connectNats, type Nats } from '@baton/store/connect'
import { ensureTopology, type TopologyOptions } from '@baton/store/topology'
import { readEdgeConfig } from './config.ts'
import { Edge } from './edge.ts'
import { close, listen } from './server.ts'

const config = orExit(() => readEdgeConfig(process.env))
const log = createLog('edge', config.logLevel)

await runService(main, { log, graceMs: config.graceMs })

async function main(stop: AbortSignal): Promise<void> {
  const edge = new Edge(config.edge, log)
  collectDefaultMetrics({ register: edge.registry })
  const { server, port } = await listen(edge, config.host, config.port)
  log.info({ url: `http://${config.host}:${port}`, port, pid: process.pid }, 'edge.listening')

  const over = new AbortController()
  const connecting = followNats(edge, over.signal)
  const stopped = new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }))
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
  const nats = await connectNats({ ...config.nats, name }, signal, (error) => log.warn({ err: error }, 'nats.waiting'))
  await makeTopology(nats, config.topology, log, signal)
  edge.use(nats, signal)
  log.info('edge.ready')
  return nats
}

/** Makes missing streams and buckets where this user may; differences to what is wanted are said, not changed. */
async function makeTopology(nats: Nats, options: TopologyOptions, log: Log, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      const changes = await ensureTopology(nats, options)
      const different = changes.filter(({ kind }) => kind === 'update').map(({ name }) => name)
      if (different.length > 0) log.warn({ streams: different }, 'topology.different')
      return
    } catch (error) {
      if (isCode(error, 'denied')) return log.warn({ err: error }, 'topology.unchecked')
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
      log.warn({ code: error.code }, 'topology.waiting')
      await sleep(500, signal)
    }
  }
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
