import { expect, test } from 'vitest'
import { createLog } from '@baton/service/log'
import { ensureDeliveries, storeAlert } from '@baton/store/alerts'
import { connectNats } from '@baton/store/connect'
import { sendAlerts, type WebhookOutcome } from '../../apps/watchdog/src/webhook.ts'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { Webhook } from '../kit/webhook.ts'

test('an alert that the webhook has taken while NATS went away is sent again, and ends nobody', async () => {
  await using log = await LogServer.start()
  await using proxy = await Proxy.start({ port: log.server.port })
  await using webhook = await Webhook.start()
  const over = new AbortController()
  const nats = await connectNats({ servers: [`nats://127.0.0.1:${proxy.port}`], name: 'baton-test' }, over.signal)
  await ensureDeliveries(nats)
  webhook.onRequest = () => {
    if (webhook.received.length === 0) proxy.cut()
  }
  const outcomes: WebhookOutcome[] = []
  const deps = { nats, url: webhook.url, secret: null, log: createLog('test', 'silent') }
  const sending = sendAlerts({ ...deps, onOutcome: (outcome) => outcomes.push(outcome) }, over.signal)
  const ended = sending.then(
    () => null,
    (error: unknown) => error,
  )
  const alert = { run: 'r', verdict: 'stalled', previous: 'running', since: '2026-01-01T00:00:00Z', epoch: 1 } as const
  await storeAlert(log.nats, alert, 0, 'me')
  const again = eventually('the alert has come again', () => webhook.received.length === 2, { withinMs: 40_000 })
  expect(await Promise.race([ended, again])).toBe(true)
  await eventually('it is delivered', () => outcomes.includes('delivered'))
  over.abort(new Error('the test is over'))
  expect(await ended).toBeNull()
  await nats.nc.close()
}, 60_000)
