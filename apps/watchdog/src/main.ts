import { randomBytes } from 'node:crypto'
import { WATCHDOG } from '@baton/core/records'
import { serveHealth } from '@baton/service/health'
import { createLog } from '@baton/service/log'
import { processRegistry } from '@baton/service/metrics'
import { orExit, runService } from '@baton/service/run-service'
import { unlessStopped } from '@baton/service/unless-stopped'
import { connectNats } from '@baton/store/connect'
import { WATCHDOG_CONNECTION } from '@baton/store/names'
import { sayRefusals } from '@baton/store/refusals'
import { sayWaiting } from '@baton/store/say-waiting'
import { watchdogConfig, type WatchdogConfig } from './config.ts'
import { Watchdog } from './watchdog.ts'
import { sendAlerts } from './webhook.ts'

const config = orExit(() => watchdogConfig(process.env))
const self = { relay: WATCHDOG, boot: randomBytes(6).toString('hex') }
const log = createLog('watchdog', config.logLevel).child({ boot: self.boot })

await runService((stop) => main(config, stop), { log, graceMs: config.graceMs })

async function main(config: WatchdogConfig, stop: AbortSignal): Promise<void> {
  let watchdog: Watchdog | null = null
  const registry = processRegistry()
  if (config.healthPort > 0) {
    const health = { live: () => true, ready: () => watchdog?.ready ?? false }
    await serveHealth({ port: config.healthPort, host: '127.0.0.1', health, registry }, stop)
  }
  const connecting = connectNats(
    { ...config.nats, name: WATCHDOG_CONNECTION + self.boot },
    stop,
    sayWaiting(log, config.nats),
  )
  const nats = await unlessStopped(connecting, stop)
  if (nats === null) return
  sayRefusals(nats, log)
  watchdog = new Watchdog(config, { nats, self, registry, log })
  const { metrics } = watchdog
  log.info({ on_orphan: config.onOrphan, webhook: config.webhook !== null }, 'watchdog.started')
  if (config.webhook !== null && config.webhook.secret === null) log.warn('webhook.unsigned')
  await Promise.all([
    watchdog.run(stop),
    config.webhook === null
      ? null
      : sendAlerts({ nats, ...config.webhook, onOutcome: (outcome) => metrics.webhook.inc({ outcome }), log }, stop),
  ])
  await nats.nc.drain()
}
