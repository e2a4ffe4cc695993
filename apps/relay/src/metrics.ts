import { addGauge, Counter, Histogram, type Registry } from '@baton/service/metrics'

/** Every metric of a relay. Labels are bounded: never a run, a job or a URL. */
export function createMetrics(
  registry: Registry,
  now: { runs: () => number; queueBytes: () => number; loopLagMs: () => number },
) {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number) => addGauge(registry, name, help, read)
  gauge('baton_relay_runs', 'Runs this relay owns', now.runs)
  gauge('baton_relay_queue_bytes', 'Events that wait for NATS, of all runs together', now.queueBytes)
  gauge('baton_relay_loop_lag_seconds', 'How late the timers of this process are', () => now.loopLagMs() / 1000)
  return {
    claims: new Counter({
      name: 'baton_relay_claims_total',
      help: 'Claims by outcome',
      labelNames: ['outcome'],
      registers,
    }),
    takeovers: new Counter({
      name: 'baton_relay_takeovers_total',
      help: 'Runs taken that had an owner before, by what made this relay go for them',
      labelNames: ['cause'],
      registers,
    }),
    takeoverSeconds: new Histogram({
      name: 'baton_relay_takeover_seconds',
      help: 'From what made this relay go for a run that had an owner before to its own epoch',
      labelNames: ['cause'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
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
