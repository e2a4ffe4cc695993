import { randomBytes } from 'node:crypto'
import { isCode } from '@baton/core/errors'
import { serveHealth } from '@baton/service/health'
import { createLog, type Log } from '@baton/service/log'
import { orExit, runService } from '@baton/service/run-service'
import { sleep } from '@baton/service/sleep'
import { connectNats, type Nats } from '@baton/store/connect'
import { RELAY_CONNECTION } from '@baton/store/names'
import { ensureTopology } from '@baton/store/topology'
import { relayConfig, type RelayConfig } from './config.ts'
import { Relay } from './relay.ts'
import { createUpstream } from './upstream.ts'

/** The headers of an event need room beside its data. */
const HEADER_ROOM_BYTES = 8 * 1024

const config = orExit(() => relayConfig(process.env))
/** Told apart by its own random id: a restarted process never takes itself for the one before. */
const boot = randomBytes(6).toString('hex')
const log = createLog('relay', config.logLevel).child({ relay: config.relay, boot })

await runService((stop) => main(config, stop), { log, graceMs: config.graceMs })

async function main(config: RelayConfig, stop: AbortSignal): Promise<void> {
  let relay: Relay | null = null
  if (config.healthPort > 0) await health(config.healthPort, () => relay, stop)
  const nats = await connectNats({ ...config.nats, name: RELAY_CONNECTION + boot }, stop, (error) =>
    log.warn({ err: error }, 'nats.waiting'),
  )
  await topology(nats, config, log, stop)
  const maxEventBytes = eventCap(config.upstream.maxEventBytes, nats.nc.info?.max_payload ?? 2 ** 20)
  const upstream = createUpstream({ ...config.upstream, maxEventBytes })
  relay = new Relay(config, { nats, upstream, boot, log })
  log.info({ pid: process.pid }, 'relay.started')
  await relay.run(stop)
  await upstream.agent.destroy()
  await nats.nc.drain()
}

function eventCap(asked: number, maxPayload: number): number {
  const most = maxPayload - HEADER_ROOM_BYTES
  if (asked > most) throw new Error(`BATON_MAX_EVENT_BYTES: the server's max_payload allows at most ${most}`)
  return asked === 0 ? most : asked
}

/** Makes missing streams and buckets where this user may; differences to what is wanted are said, not changed. */
async function topology(nats: Nats, config: RelayConfig, log: Log, stop: AbortSignal): Promise<void> {
  for (;;) {
    try {
      const changes = await ensureTopology(nats, config.topology)
      const different = changes.filter(({ kind }) => kind === 'update').map(({ name }) => name)
      if (different.length > 0) log.warn({ streams: different }, 'topology.different')
      return
    } catch (error) {
      if (isCode(error, 'denied')) return log.warn({ err: error }, 'topology.unchecked')
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
      log.warn({ code: error.code }, 'topology.waiting')
      await sleep(500, stop)
    }
  }
}

async function health(port: number, relay: () => Relay | null, stop: AbortSignal): Promise<void> {
  const { Registry } = await import('@baton/service/metrics')
  const empty = new Registry()
  await serveHealth(
    {
      port,
      host: '127.0.0.1',
      health: { live: () => true, ready: () => relay()?.ready ?? false },
      registry: () => relay()?.metrics.registry ?? empty,
    },
    stop,
  )
}
