import type { Subscription } from '@nats-io/nats-core'
import { errors } from '@nats-io/nats-core'
import type { Beat } from '@baton/core/records'
import type { Nats } from './connect.ts'
import {
  BEAT,
  beatSubject,
  DISCONNECT,
  drainSubject,
  pingSubject,
  RELAY_CONNECTION,
  RELEASED,
  releasedSubject,
  releaseSubject,
  WATCHDOG_CONNECTION,
} from './names.ts'

/**
 * How relays hear of each other, all on core NATS: it keeps flowing through JetStream elections, and nothing said
 * here decides anything. Claims and owner records do.
 */

export const sendBeat = ({ nc }: Nats, beat: Beat): void => nc.publish(beatSubject(beat.boot), JSON.stringify(beat))

function subscribe(
  { nc }: Nats,
  subject: string,
  onMessage: (token: string, text: string) => void,
  signal: AbortSignal,
) {
  const sub: Subscription = nc.subscribe(subject, {
    callback: (error, message) => {
      if (error === null) onMessage(message.subject.split('.').at(-1) ?? '', message.string())
    },
  })
  signal.addEventListener('abort', () => sub.unsubscribe(), { once: true })
}

/** Every relay's beats, our own too. What does not parse as one is not one. */
export function onBeats(nats: Nats, onBeat: (beat: Beat) => void, signal: AbortSignal): void {
  subscribe(
    nats,
    BEAT,
    (boot, text) => {
      const beat = parse<Beat>(text)
      if (beat !== null && beat.boot === boot) onBeat(beat)
    },
    signal,
  )
}

/**
 * The boot of a relay, or of a watchdog, whose socket the server saw close. A hint: a mere reconnect makes one too, and anybody with the
 * right to publish there can forge one. It comes 2–7 ms after a kill -9.
 */
export function onDisconnects(nats: Nats, onGone: (boot: string) => void, signal: AbortSignal): void {
  subscribe(
    nats,
    DISCONNECT,
    (_token, text) => {
      const name = parse<{ client?: { name?: string } }>(text)?.client?.name
      const prefix = [RELAY_CONNECTION, WATCHDOG_CONNECTION].find((one) => name?.startsWith(one) === true)
      if (name !== undefined && prefix !== undefined) onGone(name.slice(prefix.length))
    },
    signal,
  )
}

/** A run whose owner gave it up on purpose: the next one may start at once. */
export const sayReleased = ({ nc }: Nats, run: string): void => nc.publish(releasedSubject(run))
export const onReleased = (nats: Nats, onRun: (run: string) => void, signal: AbortSignal): void =>
  subscribe(nats, RELEASED, onRun, signal)

/** Answers pings for this boot, for as long as the signal allows. */
export function answerPings({ nc }: Nats, boot: string, signal: AbortSignal): void {
  const sub = nc.subscribe(pingSubject(boot), {
    callback: (error, message) => {
      if (error === null) message.respond()
    },
  })
  signal.addEventListener('abort', () => sub.unsubscribe(), { once: true })
}

export type PingAnswer = 'alive' | 'nobody' | 'silent'

/** Asks a boot for a sign: `nobody` = no process listens there (proof that its connection is gone), `silent` = no answer. */
export async function ping({ nc }: Nats, boot: string, timeoutMs: number): Promise<PingAnswer> {
  try {
    await nc.request(pingSubject(boot), '', { timeout: timeoutMs })
    return 'alive'
  } catch (error) {
    const inner = error instanceof errors.RequestError ? (error.cause ?? error) : error
    const nobody =
      inner instanceof errors.NoRespondersError || (error instanceof errors.RequestError && error.isNoResponders())
    return nobody ? 'nobody' : 'silent'
  }
}

/** Asks a relay to give up to `runs` of its runs away; it answers how many it will. */
export async function askRelease({ nc }: Nats, boot: string, runs: number): Promise<number> {
  try {
    const answer = await nc.request(releaseSubject(boot), JSON.stringify({ runs }), { timeout: 1000 })
    return parse<{ runs?: number }>(answer.string())?.runs ?? 0
  } catch {
    return 0
  }
}

export function onReleaseRequests(
  { nc }: Nats,
  boot: string,
  give: (runs: number) => number,
  signal: AbortSignal,
): void {
  const sub = nc.subscribe(releaseSubject(boot), {
    callback: (error, message) => {
      if (error !== null) return
      const runs = parse<{ runs?: number }>(message.string())?.runs
      message.respond(JSON.stringify({ runs: typeof runs === 'number' && runs > 0 ? give(Math.floor(runs)) : 0 }))
    },
  })
  signal.addEventListener('abort', () => sub.unsubscribe(), { once: true })
}

/** What a relay answers when it is asked to drain. */
export type Draining = { readonly relay: string; readonly boot: string; readonly runs: number }

/** Asks a relay to hand all its runs over and end; null where no process of that boot answers. */
export async function askDrain({ nc }: Nats, boot: string, timeoutMs: number): Promise<Draining | null> {
  try {
    return parse<Draining>((await nc.request(drainSubject(boot), '', { timeout: timeoutMs })).string())
  } catch {
    return null
  }
}

/** Answers requests to drain, also a second one; the sender follows the beats to see how it goes. */
export function onDrainRequests({ nc }: Nats, boot: string, drain: () => Draining, signal: AbortSignal): void {
  const sub = nc.subscribe(drainSubject(boot), {
    callback: (error, message) => {
      if (error === null) message.respond(JSON.stringify(drain()))
    },
  })
  signal.addEventListener('abort', () => sub.unsubscribe(), { once: true })
}

function parse<T>(text: string): T | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as T) : null
  } catch {
    return null
  }
}
