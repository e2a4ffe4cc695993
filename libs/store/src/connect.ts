import { connect as dial, credsAuthenticator } from '@nats-io/transport-node'
import type { ConnectionOptions, NatsConnection } from '@nats-io/nats-core'
import { jetstream, jetstreamManager, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream'
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { isRefusal } from './nats-errors.ts'
import { addressOf, credentialsOf } from './nats-url.ts'

/** One connection to NATS and its two JetStream faces. The only handle the rest of the store takes. */
export type Nats = {
  readonly nc: NatsConnection
  readonly js: JetStreamClient
  readonly jsm: JetStreamManager
  /** Answers come under this prefix: one that this user, and perhaps no other, may subscribe to. */
  readonly inboxPrefix: string
  /** Called at each loss of the connection, until the returned function is; requests under way get no answer then. */
  readonly onDisconnect: (listener: () => void) => () => void
}

export type NatsOptions = {
  readonly servers: readonly string[]
  /** Shows in `nats server report connections`, and in the disconnect notice: a relay's is `baton-relay-<boot>`. */
  readonly name: string
  /** Path of a .creds file. */
  readonly creds?: string | undefined
  /** Where answers come; default `_INBOX.<user>` where the URL has a user, else `_INBOX`. */
  readonly inboxPrefix?: string | undefined
}

/** How long one JetStream request may take: longer than a busy server, far shorter than an election. */
export const REQUEST_TIMEOUT_MS = 1000

/**
 * Connects, trying for as long as the signal allows: a process that starts before NATS waits for it. `onWaiting` hears why,
 * once while NATS is away and once while it does not let this user in. Afterwards the client reconnects for ever and
 * quickly; pings find a half-open socket within seconds. A server that does not let this user in any more is asked again,
 * less often: it may be one that has not yet read who may; `onWaiting` hears of it.
 */
export async function connectNats(
  options: NatsOptions,
  signal: AbortSignal,
  onWaiting: (error: unknown) => void = () => undefined,
): Promise<Nats> {
  const dials = new PacedDials()
  const base = await connectionOptions(options, dials)
  // Once for each of the two: a server that was away may, when it is back, not let this user in.
  const told = new Set<boolean>()
  for (;;) {
    signal.throwIfAborted()
    try {
      const nc = await dial(base)
      askOnWhenRefused(nc)
      const jsm = await jetstreamManager(nc, { checkAPI: false, timeout: REQUEST_TIMEOUT_MS })
      const onDisconnect = disconnects(nc)
      void followLogins(nc, dials, onWaiting).catch(() => undefined)
      const { inboxPrefix } = base
      return { nc, js: jetstream(nc, { timeout: REQUEST_TIMEOUT_MS }), jsm, inboxPrefix, onDisconnect }
    } catch (error) {
      if (!told.has(isRefusal(error))) onWaiting(error)
      told.add(isRefusal(error))
      await delay(250, undefined, { signal })
    }
  }
}

/** nats.js lets a request that lost its connection run into its timeout; who waits for an answer can know at once. */
function disconnects(nc: NatsConnection): Nats['onDisconnect'] {
  const listeners = new Set<() => void>()
  const follow = async (): Promise<void> => {
    for await (const status of nc.status()) {
      if (status.type === 'disconnect') for (const listener of listeners) listener()
    }
  }
  void follow().catch(() => undefined)
  return (listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
}

/**
 * A user that may read only its own answers is given a prefix with its name in it, and one that may read all under
 * `_INBOX.>`, as is the custom, loses nothing by it. A name that is no single token of a subject has no such prefix.
 */
const inboxOf = (user: string): string => (/^[A-Za-z0-9_-]+$/.test(user) ? `_INBOX.${user}` : '_INBOX')

/**
 * nats.js 3.4.0 gives a connection up for good at the second refusal in a row, and where it is told not to it does not even
 * say that the first connection is refused: it asks one node of a cluster after another. So it is told once it is connected,
 * by the options that it keeps, which its type leaves out.
 */
function askOnWhenRefused(nc: NatsConnection & { options?: ConnectionOptions }): void {
  if (nc.options !== undefined) nc.options.ignoreAuthErrorAbort = true
}

/** Says once, each time, that a server does not let this user in any more, and has the client ask less often meanwhile. */
async function followLogins(nc: NatsConnection, dials: PacedDials, onRefused: (error: unknown) => void): Promise<void> {
  for await (const status of nc.status()) {
    if (status.type === 'reconnect') dials.areRefused = false
    if (status.type !== 'error' || !isRefusal(status.error) || dials.areRefused) continue
    dials.areRefused = true
    onRefused(status.error)
  }
}

const DIAL_PAUSE_MS = { least: 50, jitter: 50 } as const
const REFUSED_PAUSE_MS = { least: 500, jitter: 500 } as const

/**
 * nats.js 3.4.0 takes the pause between two dials from the wall clock: one that has gone back by an hour since the last dial
 * makes it wait for that hour. Here the monotonic clock tells when it is time again; no wait at all then passes its test.
 */
class PacedDials {
  areRefused = false
  #dialledAtMs = Number.NEGATIVE_INFINITY
  #pauseMs = 0

  readonly pause = (): number => {
    if (performance.now() < this.#dialledAtMs + this.#pauseMs) return this.#pauseMs
    this.#dialledAtMs = performance.now()
    const { least, jitter } = this.areRefused ? REFUSED_PAUSE_MS : DIAL_PAUSE_MS
    this.#pauseMs = least + Math.random() * jitter
    return Number.NEGATIVE_INFINITY
  }
}

async function connectionOptions(
  options: NatsOptions,
  dials: PacedDials,
): Promise<ConnectionOptions & { inboxPrefix: string }> {
  const credentials = credentialsOf(options.servers[0] ?? '')
  return {
    servers: options.servers.map(addressOf),
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectDelayHandler: dials.pause,
    waitOnFirstConnect: false,
    timeout: 1000,
    pingInterval: 2000,
    maxPingOut: 2,
    ignoreClusterUpdates: false,
    inboxPrefix: options.inboxPrefix ?? inboxOf(credentials?.user ?? ''),
    // A URL that says tls must not end in a password sent in clear, because the server has none to offer.
    ...(options.servers.some((server) => /^tls:/i.test(server)) ? { tls: {} } : {}),
    ...credentials,
    ...(options.creds === undefined ? {} : { authenticator: credsAuthenticator(await readFile(options.creds)) }),
  }
}
