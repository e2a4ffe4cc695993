import { VERDICTS, type Verdict } from '@baton/core/judge'
import { addGauge, Counter, Gauge, Histogram, type Registry } from '@baton/service/metrics'

type Now = { readonly verdicts: () => ReadonlyMap<Verdict, number>; readonly observedMs: () => number }

/** Every metric of a watchdog. Labels are bounded: never a run. */
export function createMetrics(registry: Registry, now: Now) {
  const registers = [registry]
  // oxlint-disable-next-line no-new -- prom-client registers a metric by making it
  new Gauge({
    name: 'baton_watchdog_runs',
    help: 'Runs by verdict',
    labelNames: ['verdict'],
    registers,
    collect() {
      const counts = now.verdicts()
      for (const verdict of VERDICTS) this.set({ verdict }, counts.get(verdict) ?? 0)
    },
  })
  addGauge(
    registry,
    'baton_watchdog_observed_seconds',
    'For how long signs could be written and were looked for without a break: no verdict rests on a longer silence',
    () => now.observedMs() / 1000,
  )
  const counter = <T extends string>(name: string, help: string, ...labelNames: T[]) =>
    new Counter({ name, help, labelNames, registers })
  return {
    sweeps: counter('baton_watchdog_sweeps_total', 'Looks at all runs, by how they went', 'outcome'),
    alerts: counter('baton_watchdog_alerts_total', 'Changed verdicts told by this watchdog', 'verdict'),
    webhook: counter('baton_watchdog_webhook_attempts_total', 'Attempts to send an alert to the webhook', 'outcome'),
    orphans: counter('baton_watchdog_orphans_total', 'Orphans this watchdog went to end', 'outcome'),
    sweepSeconds: new Histogram({
      name: 'baton_watchdog_sweep_seconds',
      help: 'Time one look at all runs took',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    oldest: new Gauge({
      name: 'baton_watchdog_heartbeat_age_max_seconds',
      help: 'Age of the oldest heartbeat of a run that has not ended, by kind',
      labelNames: ['kind'],
      registers,
    }),
  }
}
