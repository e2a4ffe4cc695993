import { connect } from 'node:net'
import { eventually } from '../kit/eventually.ts'
import { indexOf } from '../kit/sse-client.ts'
import { System } from '../kit/system.ts'
import { LiveWatch } from './live-watch.ts'
import { MiB, TrafficMeter, useOf, type Row } from './measure.ts'

const unlimited = { BATON_OPENS_PER_CLIENT: '0', BATON_OPENS_TOTAL: '0' }

/** 10,000 events that an agent has ready at once: until a client has them all, in order. */
async function burst(): Promise<Row> {
  const events = 10_000
  await using system = await System.start({ relays: 1, edges: 1 })
  const job = system.agents.job('burst', { events, perSecond: 0, ends: false })
  await system.register('burst', { url: job.url })
  const startedAtMs = performance.now()
  await using client = system.follow('burst')
  await client.untilEvents(events, 60_000)
  const tookMs = performance.now() - startedAtMs
  const inOrder = client.events.every((frame, at) => indexOf(frame) === at + 1)
  if (!inOrder || client.breach !== null) throw new Error('the burst did not arrive in order')
  return {
    what: `a burst of ${events} events from agent to client`,
    figures: { took_ms: Math.round(tookMs), events_per_s: Math.round((events * 1000) / tookMs) },
  }
}

/** Many slow runs on one relay: what each costs. */
async function manyRuns(): Promise<Row> {
  const [runs, seconds] = [1000, 20]
  await using system = await System.start({ relays: 1, edges: 1, environment: { BATON_RELAY_CAPACITY: '2000' } })
  const [relay] = system.relays
  if (relay === undefined) throw new Error('a relay is needed')
  const watch = new LiveWatch(system.store)
  await using meter = await TrafficMeter.of(system.nats)
  for (let at = 0; at < runs; at++) {
    const job = system.agents.job(`run-${at}`, { events: 1_000_000, perSecond: 1 })
    await system.register(`run-${at}`, { url: job.url })
  }
  await eventually('all runs flow', () => watch.events > 2 * runs, { withinMs: 60_000 })
  const before = {
    use: await useOf(relay.pid),
    traffic: await meter.read(),
    events: watch.events,
    atMs: performance.now(),
  }
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  const after = {
    use: await useOf(relay.pid),
    traffic: await meter.read(),
    events: watch.events,
    atMs: performance.now(),
  }
  watch.close()
  const events = after.events - before.events
  const tookMs = after.atMs - before.atMs
  return {
    what: `${runs} runs at 1 event/s on one relay`,
    figures: {
      events_per_s: Math.round((events * 1000) / tookMs),
      relay_cpu_percent: Math.round(((after.use.cpuMs - before.use.cpuMs) / tookMs) * 100),
      relay_cpu_ms_per_1000_events: Math.round((after.use.cpuMs - before.use.cpuMs) / (events / 1000)),
      relay_rss_mib: MiB(after.use.residentBytes),
      nats_received_per_event: ((after.traffic.received - before.traffic.received) / events).toFixed(2),
    },
  }
}

/** Many clients of one run at one edge: deliveries and what they cost. */
async function fanOut(): Promise<Row> {
  const [clients, perSecond, seconds] = [1000, 20, 15]
  await using system = await System.start({ relays: 1, edges: 1, environment: unlimited })
  const [edge] = system.edges
  if (edge === undefined) throw new Error('an edge is needed')
  const job = system.agents.job('fan-out', { events: 1_000_000, perSecond })
  await system.register('fan-out', { url: job.url })
  const counts = Array.from({ length: clients }, () => ({ events: 0 }))
  const port = Number(new URL(edge.url).port)
  const sockets = counts.map((count) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write('GET /runs/fan-out/events?from=now HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n')
    // An id line for each event: counted, not parsed, for the clients share the machine with what is measured.
    return socket.setEncoding('latin1').on('data', (text: string) => (count.events += text.split('\nid: ').length - 1))
  })
  await eventually('every client has events', () => counts.every(({ events }) => events > 2), { withinMs: 60_000 })
  const total = () => counts.reduce((sum, { events }) => sum + events, 0)
  const before = { use: await useOf(edge.pid), deliveries: total(), atMs: performance.now() }
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  const after = { use: await useOf(edge.pid), deliveries: total(), atMs: performance.now() }
  for (const socket of sockets) socket.destroy()
  const deliveries = after.deliveries - before.deliveries
  const [tookMs, cpuMs] = [after.atMs - before.atMs, after.use.cpuMs - before.use.cpuMs]
  return {
    what: `one run at ${perSecond} events/s to ${clients} clients of one edge`,
    figures: {
      deliveries_per_s: Math.round((deliveries * 1000) / tookMs),
      edge_cpu_percent: Math.round((cpuMs / tookMs) * 100),
      deliveries_per_cpu_s: Math.round((deliveries * 1000) / cpuMs),
      edge_rss_mib: MiB(after.use.residentBytes),
    },
  }
}

export const throughputBenches = {
  burst: burst,
  '1000 runs': manyRuns,
  'fan-out': fanOut,
}
