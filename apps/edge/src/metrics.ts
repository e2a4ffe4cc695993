import { addGauge, Counter, Histogram, type Registry } from '@baton/service/metrics'

/** Why a stream to a client ended. */
export type Closing = 'end' | 'left' | 'drain' | 'max-age' | 'token-expired' | 'too-slow'
/** What a request for a stream got. */
export type Opened = 'open' | 'reset' | 'busy' | 'over' | 'refused'

export type EdgeMetrics = {
  opened(how: Opened): void
  closed(why: Closing): void
  denied(status: 401 | 403): void
  wrote(events: number, bytes: number): void
  flushed(tookMs: number): void
  refilled(): void
  feedReset(): void
  replayed(): void
  checkFailed(): void
}

/** The figures of an edge. No label ever holds a run, a client or anything else without a bound. */
export function createMetrics(
  registry: Registry,
  now: {
    clients: () => number
    feeds: () => number
    replays: () => number
    ringsBytes: () => number
    queueBytes: () => number
  },
): EdgeMetrics {
  const registers = [registry]
  const opens = new Counter({
    name: 'baton_edge_opens_total',
    help: 'Requests for a stream, by what they got',
    labelNames: ['outcome'],
    registers,
  })
  const closes = new Counter({
    name: 'baton_edge_closes_total',
    help: 'Streams that ended, by why',
    labelNames: ['reason'],
    registers,
  })
  const denials = new Counter({
    name: 'baton_edge_denied_total',
    help: 'Requests without a valid token (401), and without the grant or from a page they may not come from (403).',
    labelNames: ['status'],
    registers,
  })
  // Added up here and told when asked: a write to a thousand clients should not count itself three thousand times.
  const written = { events: 0, writes: 0, bytes: 0 }
  const total = (what: keyof typeof written, help: string) =>
    new Counter({
      name: `baton_edge_${what}_total`,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(written[what])
      },
    })
  total('events', 'Events written to clients')
  total('writes', 'Writes of events to clients')
  total('bytes', 'Bytes of events written to clients')
  const refills = new Counter({
    name: 'baton_edge_refills_total',
    help: 'Holes in live feeds filled from the log',
    registers,
  })
  const resets = new Counter({
    name: 'baton_edge_feed_resets_total',
    help: 'Holes that the log could not fill, told to the clients of a live feed by a reset',
    registers,
  })
  const replays = new Counter({
    name: 'baton_edge_replays_total',
    help: 'Replays started for clients behind their feed',
    registers,
  })
  const failed = new Counter({
    name: 'baton_edge_tail_checks_failed_total',
    help: 'Tail checks that got no answer',
    registers,
  })
  const flush = new Histogram({
    name: 'baton_edge_flush_seconds',
    help: 'Time one round of writes to all clients with news took',
    buckets: [0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5],
    registers,
  })
  const gauge = (name: string, help: string, read: () => number) => addGauge(registry, name, help, read)
  gauge('baton_edge_clients', 'Open streams', now.clients)
  gauge('baton_edge_feeds', 'Runs, topics and sets followed for clients', now.feeds)
  gauge('baton_edge_replays_running', 'Replays going on', now.replays)
  gauge('baton_edge_rings_bytes', 'What the rings of all feeds hold', now.ringsBytes)
  gauge('baton_edge_queue_bytes', 'What waits in the sockets of all clients', now.queueBytes)
  return {
    opened: (outcome) => opens.inc({ outcome }),
    closed: (reason) => closes.inc({ reason }),
    denied: (status) => denials.inc({ status }),
    wrote: (events, bytes) => {
      written.events += events
      written.writes++
      written.bytes += bytes
    },
    flushed: (tookMs) => flush.observe(tookMs / 1000),
    refilled: () => refills.inc(),
    feedReset: () => resets.inc(),
    replayed: () => replays.inc(),
    checkFailed: () => failed.inc(),
  }
}
