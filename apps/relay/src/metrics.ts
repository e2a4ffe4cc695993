import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@baton/service/metrics'

/** Every metric of a relay. Labels are bounded: never a run, a job or a URL. */
export function createMetrics(owned: () => number, loopLagMs: () => number) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  // oxlint-disable-next-line no-new -- prom-client registers a metric by making it
  new Gauge({
    name: 'baton_relay_runs',
    help: 'Runs this relay owns',
    registers,
    collect() {
      this.set(owned())
    },
  })
  // oxlint-disable-next-line no-new -- as above
  new Gauge({
    name: 'baton_relay_loop_lag_seconds',
    help: 'How late the timers of this process are',
    registers,
    collect() {
      this.set(loopLagMs() / 1000)
    },
  })
  return {
    registry,
    claims: new Counter({
      name: 'baton_relay_claims_total',
      help: 'Claims by outcome',
      labelNames: ['outcome'],
      registers,
    }),
    takeovers: new Counter({
      name: 'baton_relay_takeovers_total',
      help: 'Runs taken over from another relay, by what gave it away',
      labelNames: ['cause'],
      registers,
    }),
    peersDead: new Counter({
      name: 'baton_relay_peers_dead_total',
      help: 'Peers found dead',
      labelNames: ['how'],
      registers,
    }),
    lost: new Counter({ name: 'baton_relay_runs_lost_total', help: 'Runs lost to another relay', registers }),
    released: new Counter({ name: 'baton_relay_runs_released_total', help: 'Runs handed over', registers }),
    ended: new Counter({ name: 'baton_relay_runs_ended_total', help: 'Runs ended', labelNames: ['reason'], registers }),
    epochs: new Counter({ name: 'baton_relay_epochs_total', help: 'Owner records written', registers }),
    stored: new Counter({ name: 'baton_relay_events_stored_total', help: 'Events stored', registers }),
    gaps: new Counter({ name: 'baton_relay_gaps_total', help: 'Gap records stored', registers }),
    appendRetries: new Counter({
      name: 'baton_relay_append_retries_total',
      help: 'Appends not stored at once, by code',
      labelNames: ['code'],
      registers,
    }),
    appendSeconds: new Histogram({
      name: 'baton_relay_append_seconds',
      help: 'From handing an append to NATS to its acknowledgement',
      buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5],
      registers,
    }),
  }
}

export type Metrics = ReturnType<typeof createMetrics>
