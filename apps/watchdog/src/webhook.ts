import { createHmac } from 'node:crypto'
import { backoffMs } from '@baton/core/backoff'
import { BatonError, isCode } from '@baton/core/errors'
import type { Log } from '@baton/service/log'
import { pause } from '@baton/service/sleep'
import { DELIVERY_MS, ensureDeliveries, nextDelivery, type Delivery } from '@baton/store/alerts'
import type { Nats } from '@baton/store/connect'

/** Shorter than an alert may stay taken, so that no other watchdog sends it while this one still waits. */
const ANSWER_MS = DELIVERY_MS / 3
const WAIT_MS = 2000
const PAUSE_MS = 1000
/** Between two attempts. */
const RETRY = { baseMs: 1000, ceilingMs: 60_000, floorMs: 500 }
/** An alert older than this is given up after an attempt that failed: those behind it must not wait for ever. */
const GIVE_UP_MS = 3_600_000

export type WebhookOutcome = 'delivered' | 'failed' | 'given_up'

export type WebhookDeps = {
  readonly nats: Nats
  readonly url: string
  /** Null: the body is not signed. */
  readonly secret: string | null
  readonly onOutcome: (outcome: WebhookOutcome) => void
  readonly log: Log
}

/**
 * Sends every alert to the webhook, in order, each by one of all watchdogs; what a dead one had begun is begun again by
 * another. At least once: `Baton-Alert` is the same number each time.
 */
export async function sendAlerts(deps: WebhookDeps, stop: AbortSignal): Promise<void> {
  const { nats, log } = deps
  let prepared = false
  while (!stop.aborted) {
    try {
      if (!prepared) await ensureDeliveries(nats)
      prepared = true
      const askedAtMs = performance.now()
      const delivery = await nextDelivery(nats, WAIT_MS)
      if (delivery !== null) await deliver(delivery, deps)
      else if (performance.now() - askedAtMs < WAIT_MS / 2) await pause(PAUSE_MS, stop)
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      if (isCode(error, 'not_found')) prepared = false
      log.debug({ code: error.code }, 'webhook.waiting')
      await pause(PAUSE_MS, stop)
    }
  }
}

async function deliver(delivery: Delivery, deps: WebhookDeps): Promise<void> {
  const { log, onOutcome } = deps
  const { alert, sequence, attempt, ageMs } = delivery
  // Somebody wrote by hand what is no alert.
  if (alert === null) return await delivery.done()
  const failure = await post(delivery, deps)
  const about = { run: alert.run, verdict: alert.verdict, sequence, attempt }
  if (failure === null) {
    await delivery.done()
    onOutcome('delivered')
    log.debug(about, 'webhook.delivered')
  } else if (ageMs >= GIVE_UP_MS) {
    await delivery.done()
    onOutcome('given_up')
    log.error({ ...about, failure }, 'webhook.given_up')
  } else {
    delivery.againIn(backoffMs(attempt - 1, Math.random(), RETRY))
    onOutcome('failed')
    log.warn({ ...about, failure }, 'webhook.failed')
  }
}

/** Null when it was taken, else why not; never the URL, which may hold a token. */
async function post({ alert, sequence, attempt }: Delivery, { url, secret }: WebhookDeps): Promise<string | null> {
  const body = JSON.stringify(alert)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'baton-watchdog',
        'baton-alert': String(sequence),
        'baton-attempt': String(attempt),
        ...(secret === null ? {} : { 'baton-signature': signature(body, secret) }),
      },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    await response.body?.cancel()
    return response.ok ? null : `answered ${response.status}`
  } catch (error) {
    return error instanceof Error && error.name === 'TimeoutError' ? `no answer in ${ANSWER_MS} ms` : 'not reached'
  }
}

/** What the receiver computes too: the HMAC of the body's bytes with the shared secret. */
const signature = (body: string, secret: string): string =>
  `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
