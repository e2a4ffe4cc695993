import { BUCKET, bucketStream, WATCHDOG_CONNECTION } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { startWatchdog } from '../kit/process.ts'
import { System } from '../kit/system.ts'
import { LiveWatch } from './live-watch.ts'
import { MiB, TrafficMeter, useOf, type Row } from './measure.ts'

/** Some whole rounds of looking. */
const SECONDS = 30

/** A thousand runs with two heartbeats each, and one watchdog with its own defaults: what that costs whom. */
async function verdicts(): Promise<Row> {
  const runs = 1000
  await using system = await System.start({ relays: 1, edges: 1, environment: { BATON_RELAY_CAPACITY: '2000' } })
  const [relay, edge] = [system.relays[0], system.edges[0]]
  if (relay === undefined || edge === undefined) throw new Error('a relay and an edge are needed')
  const watch = new LiveWatch(system.store)
  await using meter = await TrafficMeter.of(system.nats)
  for (let at = 0; at < runs; at++) {
    // Three of five events of this agent are progress: both heartbeats are written for every run.
    const job = system.agents.job(`run-${at}`, { events: 1_000_000, perSecond: 1 })
    await system.register(`run-${at}`, { url: job.url })
  }
  await eventually('all runs flow', () => watch.events > 2 * runs, { withinMs: 60_000 })
  watch.close()
  const heartbeats = async () => (await system.store.jsm.streams.info(bucketStream(BUCKET.heartbeats))).state.last_seq
  await using watchdog = await startWatchdog('watchdog', { natsUrl: system.nats.url })
  const cost = await during(async () => {
    const [all, own] = [await meter.read(), await meter.readOf(WATCHDOG_CONNECTION)]
    return {
      heartbeats: await heartbeats(),
      received: all.received,
      sent: all.sent,
      asked: own.received,
      answered: own.sent,
      nats: (await useOf(system.nats.pid)).cpuMs,
      relay: (await useOf(relay.pid)).cpuMs,
      edge: (await useOf(edge.pid)).cpuMs,
      watchdog: (await useOf(watchdog.pid)).cpuMs,
    }
  })
  const list = await timed(async () => {
    await fetch(`${edge.url}/runs?limit=500`).then((response) => response.arrayBuffer())
  })
  return {
    what: `${runs} runs with heartbeats, judged by one watchdog`,
    figures: {
      heartbeats_per_s: Math.round(cost.heartbeats),
      nats_received_per_s: Math.round(cost.received),
      nats_sent_per_s: Math.round(cost.sent),
      nats_received_per_s_from_watchdog: cost.asked.toFixed(1),
      nats_sent_per_s_to_watchdog: Math.round(cost.answered),
      nats_cpu_percent: percent(cost.nats),
      relay_cpu_percent: percent(cost.relay),
      edge_cpu_percent: percent(cost.edge),
      watchdog_cpu_percent: percent(cost.watchdog),
      watchdog_rss_mib: MiB((await useOf(watchdog.pid)).residentBytes),
      list_of_500_ms: Math.round(list),
    },
  }
}

/** Of one core, from ms of it per second. */
const percent = (msPerSecond: number): string => (msPerSecond / 10).toFixed(1)

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAtMs = performance.now()
  await work()
  return performance.now() - startedAtMs
}

/** How much each figure grew per second. */
async function during<T extends Readonly<Record<string, number>>>(read: () => Promise<T>): Promise<T> {
  const [before, atMs] = [await read(), performance.now()]
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000))
  const after = await read()
  const seconds = (performance.now() - atMs) / 1000
  const grown = Object.entries(after).map(([name, value]) => [name, (value - (before[name] ?? 0)) / seconds])
  return Object.fromEntries(grown) as T
}

export const watchdogBenches = { verdicts }
