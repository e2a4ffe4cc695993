import { UNREADY_AFTER_MS } from '@baton/service/health'
import type { Log } from '@baton/service/log'
import { Registry } from '@baton/service/metrics'
import { BatonError } from '@baton/core/errors'
import type { Nats } from '@baton/store/connect'
import { watchConnection, type Connection } from '@baton/store/connection'
import { Losses } from '@baton/store/losses'
import { StreamViews } from '@baton/store/stream-views'
import { Tickets } from './access/tickets.ts'
import { Tokens } from './access/tokens.ts'
import { Bodies } from './bodies.ts'
import type { Client } from './client.ts'
import { trustedProxies } from './client-address.ts'
import type { EdgeConfig } from './config.ts'
import { Connections } from './connections.ts'
import { Feeds } from './feeds.ts'
import { createMetrics, type EdgeMetrics } from './metrics.ts'
import { Rates } from './rates.ts'
import { Pacer } from './pacer.ts'
import { Relays } from './relays.ts'
import { reconnectMs } from './retry.ts'
import { RunJudge } from './run-judge.ts'
import { RunTable } from './run-table.ts'
import { Slots } from '@baton/service/slots'
import { StatusBoard } from './status-board.ts'

/** What there is once NATS has been reached. */
export type Store = {
  readonly nats: Nats
  readonly connection: Connection
  readonly feeds: Feeds
  readonly losses: Losses
  readonly views: StreamViews
  readonly runs: RunTable
  readonly judge: RunJudge
  readonly statuses: StatusBoard
  readonly relays: Relays
}

/** Replays that may read the log at once: enough for a crowd that comes back, too few to starve what is live. */
const MAX_REPLAYS = 64
/** One client that asked for list upon list made the opening of a stream wait for half a second; so it waits for tens of ms. */
const MAX_VIEWS = 16
/** A batch costs a server several times what a message does, and it allows 50 at once, of all edges together. */
const MAX_BATCHES = 8
/** Clients are looked at several times a heartbeat, so that one is at most a fifth late, and no stream outlives its token by long. */
const TICKS_PER_HEARTBEAT = 5
/** Streams ended per second while draining, so that they do not come back all at once. */
const GOODBYES_PER_SECOND = 200

/** One edge: its clients, its limits, and what it follows. Everything in it is bounded, and gone when it is closed. */
export class Edge {
  readonly config: EdgeConfig
  readonly log: Log
  readonly registry: Registry
  readonly metrics: EdgeMetrics
  readonly clients = new Set<Client>()
  readonly opens: Rates
  /** Events that publishers may store. */
  readonly publishes: Rates
  /** What the bodies of requests hold. */
  readonly bodies = new Bodies()
  /** What each client has open. */
  readonly connections: Connections
  /** Null where nobody has to show a token. */
  readonly tokens: Tokens | null
  readonly tickets: Tickets
  readonly isTrusted: (address: string) => boolean
  /** Readings of the log that go on at once, for streams and for the history. */
  readonly slots = new Slots(MAX_REPLAYS)
  /** Runs that are looked at for lists at once, whoever asks: a list asks NATS for each run on it. */
  readonly views = new Slots(MAX_VIEWS)
  /** Arrays of events that are being stored at once; the time of the others begins with their turn. */
  readonly batches = new Slots(MAX_BATCHES)
  /** Requests for history that wait for something new. */
  polls = 0
  /** Requests for a stream that are being decided on. */
  opening = 0
  readonly #pacer: Pacer
  #store: Store | null = null
  readonly #leaving = new AbortController()
  readonly #ticker: NodeJS.Timeout

  constructor(config: EdgeConfig, log: Log, registry = new Registry()) {
    this.registry = registry
    this.config = config
    this.log = log
    this.opens = new Rates(config.opensPerClient, config.opensTotal)
    this.publishes = new Rates(config.publishPerSecond, 0)
    this.connections = new Connections(config.connectionsPerClient)
    this.tokens = config.auth === null ? null : new Tokens(config.auth, log)
    this.tickets = new Tickets(config.ticketOpenMs, config.opensPerClient)
    this.isTrusted = trustedProxies(config.trustedProxies)
    this.metrics = createMetrics(registry, {
      clients: () => this.clients.size,
      feeds: () => this.#store?.feeds.size ?? 0,
      replays: () => this.#store?.feeds.replays ?? 0,
      ringsBytes: () => this.#store?.feeds.ringsBytes ?? 0,
      queueBytes: () => [...this.clients].reduce((sum, { pendingBytes }) => sum + pendingBytes, 0),
    })
    this.#pacer = new Pacer((tookMs) => this.metrics.flushed(tookMs))
    this.#ticker = setInterval(
      () => this.#tick(),
      Math.min(1000, Math.max(10, config.heartbeatMs / TICKS_PER_HEARTBEAT)),
    )
  }

  /** From here on runs and topics can be followed. */
  use(nats: Nats, signal: AbortSignal): void {
    const onBack = () => {
      this.#store?.feeds.distrust()
      this.#store?.runs.distrust()
    }
    const connection = watchConnection(nats, onBack, signal)
    const runs = new RunTable(nats, this.log, signal)
    const judge = new RunJudge({ nats, connection, runs, thresholds: this.config.thresholds, log: this.log }, signal)
    const deps = {
      log: this.log,
      metrics: this.metrics,
      pacer: this.#pacer,
      slots: this.slots,
    }
    this.#store = {
      nats,
      connection,
      feeds: new Feeds(deps, this.config, connection),
      losses: new Losses(nats),
      views: new StreamViews(nats),
      runs,
      judge,
      statuses: new StatusBoard(runs, judge, this.config.heartbeatMs),
      relays: new Relays(nats, signal),
    }
  }

  /** Throws `unavailable` before NATS was reached. */
  get store(): Store {
    if (this.#store === null) throw new BatonError('unavailable', 'NATS has not been reached yet')
    return this.#store
  }

  /** May a load balancer send clients here? */
  get ready(): boolean {
    return !this.draining && this.#store !== null && this.#store.connection.lostForMs < UNREADY_AFTER_MS
  }

  get draining(): boolean {
    return this.#leaving.signal.aborted
  }

  /** Aborts when it begins to drain. */
  get leaving(): AbortSignal {
    return this.#leaving.signal
  }

  /** Streams that are open or about to be, and requests that wait. */
  get load(): number {
    return this.clients.size + this.opening + this.polls
  }

  /** How long a client of this edge should wait before it comes back. */
  readonly retryMs = (): number => reconnectMs(this.clients.size, Math.random())

  /** From now on no new stream is taken. */
  beginDrain(): void {
    this.#leaving.abort(new Error('the edge is draining'))
  }

  /** Says goodbye to all clients, a few at a time, within `spreadMs` at most. Their positions bring them back elsewhere. */
  async sayGoodbye(spreadMs: number): Promise<void> {
    const leaving = [...this.clients]
    const spread = Math.min(spreadMs, (leaving.length / GOODBYES_PER_SECOND) * 1000)
    const waits = leaving.map(
      (client) =>
        new Promise<void>((resolve) => {
          setTimeout(() => {
            client.bye('drain', this.retryMs())
            resolve()
          }, Math.random() * spread)
        }),
    )
    await Promise.all(waits)
  }

  close(): void {
    clearInterval(this.#ticker)
    // Those that were on their way when the goodbyes began.
    for (const client of this.clients) client.bye('drain', this.retryMs())
    this.#store?.feeds.close()
    this.#store?.statuses.close()
    this.tokens?.close()
  }

  #tick(): void {
    const nowMs = performance.now()
    for (const client of this.clients) client.tick(nowMs, this.retryMs)
  }
}
