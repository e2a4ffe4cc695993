import { randomBytes } from 'node:crypto'
import { serveHealth } from '@baton/service/health'
import { createLog } from '@baton/service/log'
import { processRegistry } from '@baton/service/metrics'
import { orExit, runService, StartError } from '@baton/service/run-service'
import { unlessStopped } from '@baton/service/unless-stopped'
import { connectNats, type Nats } from '@baton/store/connect'
import { RELAY_CONNECTION } from '@baton/store/names'
import { makeTopology } from '@baton/store/make-topology'
import { sayRefusals } from '@baton/store/refusals'
import { sayWaiting } from '@baton/store/say-waiting'
import { relayConfig, type RelayConfig } from './config.ts'
import { Relay } from './relay.ts'
import { createUpstream } from './upstream.ts'

/** The headers of an event need room beside its data. */
const HEADER_ROOM_BYTES = 8 * 1024

const config = orExit(() => relayConfig(process.env))
/** Told apart by its own random id: a restarted process never takes itself for the one before. */
const boot = randomBytes(6).toString('hex')
const log = createLog('relay', config.logLevel).child({ relay: config.relay, boot })

await runService((stop, askToStop) => main(config, stop, askToStop), { log, graceMs: config.graceMs })

async function main(config: RelayConfig, stop: AbortSignal, askToStop: (by: string) => void): Promise<void> {
  let relay: Relay | null = null
  const registry = processRegistry()
  if (config.healthPort > 0) {
    const health = { live: () => true, ready: () => relay?.ready ?? false }
    await serveHealth({ port: config.healthPort, host: '127.0.0.1', health, registry }, stop)
  }
  const nats = await unlessStopped(openStore(config, stop), stop)
  if (nats === null) return
  const maxEventBytes = eventCap(config.upstream.maxEventBytes, nats.nc.info?.max_payload ?? 2 ** 20)
  const upstream = createUpstream({ ...config.upstream, maxEventBytes })
  relay = new Relay(config, { nats, upstream, boot, registry, log })
  log.info('relay.started')
  await relay.run(stop, askToStop)
  await upstream.agent.destroy()
  await nats.nc.drain()
}

/** Connected, with its streams and buckets there. */
async function openStore({ nats: options, topology }: RelayConfig, stop: AbortSignal): Promise<Nats> {
  const nats = await connectNats({ ...options, name: RELAY_CONNECTION + boot }, stop, sayWaiting(log, options))
  sayRefusals(nats, log)
  await makeTopology(nats, topology, log, stop)
  return nats
}

function eventCap(asked: number, maxPayload: number): number {
  const most = maxPayload - HEADER_ROOM_BYTES
  if (asked > most) throw new StartError(`BATON_MAX_EVENT_BYTES: the NATS server's max_payload allows at most ${most}`)
  return asked === 0 ? most : asked
}
