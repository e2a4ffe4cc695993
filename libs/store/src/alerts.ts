import { headers, nanos, type MsgHdrs } from '@nats-io/nats-core'
import { AckPolicy, DeliverPolicy, type JsMsg } from '@nats-io/jetstream'
import { BatonError, isCode } from '@baton/core/errors'
import { isVerdict } from '@baton/core/judge'
import type { Alert } from '@baton/core/records'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'
import { directGet } from './direct-get.ts'
import { listLast } from './list-last.ts'
import { alertSubject, STREAM } from './names.ts'
import { fromNats } from './nats-errors.ts'
import { publish } from './publish.ts'
import { rest } from './rest.ts'

/**
 * Changed verdicts, in stream ALERTS. The last one of a run is what all watchdogs hold of it; each new one is stored by
 * compare-and-set on the sequence of the last, so a change is told once, however many watchdogs see it.
 */
export type LastAlert = {
  /** 0 where there is none. */
  readonly sequence: number
  /** Null where there is none, or something that somebody wrote by hand. */
  readonly alert: Alert | null
}

/** Which process stored an alert: an answer that got lost is told from another's alert by it. */
const BY = 'Baton-Watchdog'

const utf8 = new TextDecoder()

function parseAlert(data: Uint8Array): Alert | null {
  try {
    const value = JSON.parse(utf8.decode(data)) as Partial<Alert> | null
    return typeof value?.run === 'string' && isVerdict(value.verdict) ? (value as Alert) : null
  } catch {
    return null
  }
}

/** The last alert of every run that has one, by run. May be behind; the compare-and-set tells. */
export async function listAlerts(nats: Nats, signal: AbortSignal): Promise<Map<string, LastAlert>> {
  const prefix = alertSubject('').length
  const last = await listLast(nats, STREAM.alerts, signal)
  return new Map(
    last.map(({ subject, seq, data }) => [subject.slice(prefix), { sequence: seq, alert: parseAlert(data) }]),
  )
}

/** So many runs are asked for at once; the server allows 1,024 messages in an answer. */
const RUNS_AT_ONCE = 500

/** The last alerts of some runs, by run; a moment behind. Makes no consumer. Throws `unavailable`. */
export async function readAlerts(nats: Nats, runs: readonly string[]): Promise<Map<string, StoredAlert>> {
  const found = new Map<string, StoredAlert>()
  for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) {
    const subjects = runs.slice(at, at + RUNS_AT_ONCE).map(alertSubject)
    for (const { seq, data } of await directGet(nats, STREAM.alerts, { multi_last: subjects }, REQUEST_TIMEOUT_MS)) {
      const alert = parseAlert(data)
      if (alert !== null) found.set(alert.run, { sequence: seq, alert })
    }
  }
  return found
}

/** The last alert of a run, by the word of the leader. */
export async function readAlert(nats: Nats, run: string): Promise<LastAlert> {
  const { sequence, alert } = await lastAt(nats, run)
  return { sequence, alert }
}

async function lastAt(nats: Nats, run: string): Promise<LastAlert & { readonly by: string | null }> {
  try {
    const found = await nats.jsm.streams.getMessage(STREAM.alerts, { last_by_subj: alertSubject(run) })
    if (found === null) return { sequence: 0, alert: null, by: null }
    return { sequence: found.seq, alert: parseAlert(found.data), by: header(found.header, BY) }
  } catch (error) {
    const known = fromNats(error, `read the last alert of run ${run}`)
    if (known.code === 'not_found') return { sequence: 0, alert: null, by: null }
    throw known
  }
}

export type StoredAlert = { readonly sequence: number; readonly alert: Alert }

const PAGE = 256
/** A live alert wakes who follows; that one was missed is found out this much later. */
const LOOK_AGAIN_MS = 2000
/** What is heard has been sent, and is stored a moment later. */
const STORED_MS = 30

/** The alerts of a run, or of all (null), after a sequence: at most a page, oldest first. Throws `unavailable`. */
async function pageOf(nats: Nats, run: string | null, after: number) {
  const request = { batch: PAGE, seq: after + 1, next_by_subj: alertSubject(run ?? '*') }
  const found = await directGet(nats, STREAM.alerts, request, 5 * REQUEST_TIMEOUT_MS)
  return found.map(({ seq, data }) => ({ sequence: seq, alert: parseAlert(data) }))
}

/** The newest alerts of a run, or of all (null), oldest first; `newest` is how many at most. Throws `unavailable`. */
export async function readNewestAlerts(nats: Nats, run: string | null, newest: number): Promise<StoredAlert[]> {
  // Of all runs the newest are the last of the stream; those of one run may lie anywhere.
  let after = run === null ? Math.max(0, (await lastSequence(nats)) - newest) : 0
  const found: StoredAlert[] = []
  for (;;) {
    const page = await pageOf(nats, run, after)
    for (const { sequence, alert } of page) if (alert !== null) found.push({ sequence, alert })
    if (found.length > newest) found.splice(0, found.length - newest)
    if (page.length < PAGE) return found
    after = page.at(-1)?.sequence ?? after
  }
}

async function lastSequence(nats: Nats): Promise<number> {
  try {
    return (await nats.jsm.streams.info(STREAM.alerts)).state.last_seq
  } catch (error) {
    throw fromNats(error, 'look at the alerts')
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => rest(ms, signal).catch(() => undefined)

/**
 * Every alert of a run, or of all (null), after a sequence, as they are stored, until the signal aborts. While NATS is
 * away it waits; what was stored meanwhile follows.
 */
export async function followAlerts(
  nats: Nats,
  { run, after }: { run: string | null; after: number },
  onAlert: (stored: StoredAlert) => void,
  signal: AbortSignal,
): Promise<void> {
  let wake = () => {}
  const live = nats.nc.subscribe(alertSubject(run ?? '*'), { callback: () => wake() })
  try {
    for (let last = after; !signal.aborted;) {
      const woken = new Promise<void>((resolve) => (wake = resolve)).then(() => pause(STORED_MS, signal))
      const page = await pageOf(nats, run, last).catch((error: unknown) => {
        if (!isCode(error, 'unavailable')) throw error
        return []
      })
      for (const { sequence, alert } of page) {
        last = sequence
        if (alert !== null) onAlert({ sequence, alert })
      }
      if (page.length < PAGE) await Promise.race([woken, pause(LOOK_AGAIN_MS, signal)])
    }
  } finally {
    live.unsubscribe()
  }
}

const header = (map: MsgHdrs | undefined, name: string): string | null =>
  map?.has(name) === true ? map.get(name) : null

/**
 * Stores an alert where the last one of its run is still `expected`; returns its sequence. Throws `conflict` when
 * another watchdog has spoken since, `unavailable` when it is not stored, or not known to be: the same call settles it later.
 */
export async function storeAlert(nats: Nats, alert: Alert, expected: number, by: string): Promise<number> {
  const map = headers()
  map.set('Nats-Expected-Last-Subject-Sequence', String(expected))
  map.set(BY, by)
  try {
    const { sequence } = await publish(nats, alertSubject(alert.run), JSON.stringify(alert), map)
    return sequence
  } catch (error) {
    if (!isCode(error, 'unknown_outcome', 'conflict')) throw error
    // An answer that was lost, now or the last time: what stands there may be our own.
    const last = await lastAt(nats, alert.run)
    if (last.by === by && last.alert?.verdict === alert.verdict && last.sequence > expected) return last.sequence
    if (last.sequence === expected) throw new BatonError('unavailable', error.message, { cause: error })
    throw new BatonError('conflict', `run ${alert.run}: another watchdog has spoken`, { cause: error })
  }
}

/** An alert to be handed on. Whoever takes it says whether that is done, or it comes again: to this process or another. */
export type Delivery = {
  readonly alert: Alert | null
  readonly sequence: number
  /** From 1. */
  readonly attempt: number
  readonly ageMs: number
  /** Throws `unavailable` where NATS does not confirm it: then it may come again. */
  done(): Promise<void>
  /** Not before so long; the alerts after it wait, so that they arrive in order. */
  againIn(delayMs: number): void
}

/** One for all watchdogs: each alert is handed on by one of them, and by another if that one dies over it. */
const WEBHOOK = 'webhook'
/** An alert taken by a process that says nothing more comes again after this. */
export const DELIVERY_MS = 15_000
/** Without a watchdog for so long there is nobody to hand anything on to. */
const FORGOTTEN_MS = 7 * 86_400_000

/** From now on alerts are kept for handing on. Idempotent; several processes may do it at once. */
export async function ensureDeliveries(nats: Nats): Promise<void> {
  try {
    await nats.jsm.consumers.add(STREAM.alerts, {
      durable_name: WEBHOOK,
      description: 'Baton: alerts to be sent to the webhook',
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.New,
      ack_wait: nanos(DELIVERY_MS),
      max_ack_pending: 1,
      inactive_threshold: nanos(FORGOTTEN_MS),
    })
  } catch (error) {
    throw fromNats(error, 'keep alerts for the webhook')
  }
}

/** The next alert to be handed on; null when none came within `waitMs`. Throws `not_found` before `ensureDeliveries`. */
export async function nextDelivery(nats: Nats, waitMs: number): Promise<Delivery | null> {
  try {
    const consumer = await nats.js.consumers.get(STREAM.alerts, WEBHOOK)
    const message = await consumer.next({ expires: waitMs })
    if (message === null) return null
    return {
      alert: parseAlert(message.data),
      sequence: message.seq,
      attempt: message.info.deliveryCount,
      ageMs: Math.max(0, Date.now() - message.time.getTime()),
      done: () => acknowledge(message),
      againIn: (delayMs) => message.nak(delayMs),
    }
  } catch (error) {
    throw fromNats(error, 'take an alert')
  }
}

async function acknowledge(message: JsMsg): Promise<void> {
  try {
    await message.ackAck()
  } catch (error) {
    throw fromNats(error, 'have an alert taken')
  }
}
