import { expect, test } from 'vitest'
import { eventHeaders } from '@baton/store/codec'
import { eventually, steadily } from '../kit/eventually.ts'
import { runScope } from '../../apps/edge/src/run-scope.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { indexOf, SseClient, type Received } from '../kit/sse-client.ts'
import { runEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** Repeatable: the same schedule of arrivals and departures every time, as far as the machine allows. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** One connection's frames: strictly consecutive, every jump announced by a reset that counts it. */
function checkConnection(frames: readonly Received[], cameWith: string | null): void {
  const [first] = frames
  expect(['stream.open', 'stream.reset']).toContain(first?.event)
  let at = cameWith === null ? null : Number(cameWith.split('-')[1])
  for (const frame of frames) {
    const index = indexOf(frame)
    if (frame.event === 'stream.open') {
      if (at !== null) expect(index).toBe(at)
      at = index
    } else if (frame.event === 'stream.reset') {
      const { missed, reason, resumesAt } = JSON.parse(frame.data ?? '') as Record<string, unknown>
      expect(reason).toBe('trimmed')
      expect(resumesAt).toBe(frame.id)
      if (at !== null) expect(missed).toBe(index - at)
      at = index
    } else if (frame.data !== null) {
      expect(index).toBe((at ?? 0) + 1)
      at = index
    }
  }
}

const KEPT_EVENTS = 150

test('clients that come, go and come back to a fast run that forgets quickly see no hole that is not told', async () => {
  await using log = await LogServer.start({ runEvents: KEPT_EVENTS })
  // Rings of the smallest kind, so that many are behind them, and feeds that hardly outlive their clients.
  await using edge = await LocalEdge.start(log.server.url, { ringsBytes: 1, lingerMs: 50, checkMs: 200 })
  let index = 0
  const writing = { goesOn: true }
  const writer = (async () => {
    while (writing.goesOn) {
      const burst = Array.from({ length: 40 }, () =>
        runEvent(++index, { data: 'x'.repeat(index % 3 === 0 ? 4000 : 50) }),
      )
      await writeEvents(log.nats, 'fast', burst)
    }
  })()

  const tally = { open: 0, reset: 0 }
  const come = async (seed: number): Promise<void> => {
    const next = random(seed)
    let lastEventId: string | null = null
    for (let visit = 0; visit < 25; visit++) {
      const stays = 1 + Math.floor(next() * 300)
      const client: SseClient = new SseClient({
        urls: [`${edge.url}/runs/fast/events`],
        reconnects: false,
        ...(lastEventId === null ? {} : { lastEventId }),
      })
      await client.until(`${stays} frames`, () => client.frames.length >= stays, 60_000)
      await client.close()
      checkConnection(client.frames, lastEventId)
      tally[client.frames[0]?.event === 'stream.open' ? 'open' : 'reset']++
      // Some come anew, the others with what they have; some dawdle, and find it trimmed.
      lastEventId = next() < 0.3 ? null : client.lastEventId
      const dawdlesUntil = index + (next() < 0.3 ? next() * 2 * KEPT_EVENTS : 0)
      await eventually('it has dawdled', () => index >= dawdlesUntil)
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, seed) => come(seed + 1)))
  writing.goesOn = false
  await writer
  expect(tally.open).toBeGreaterThan(50)
  expect(tally.reset).toBeGreaterThan(5)
}, 240_000)

test('a log that grows while its tail is checked is not taken for one made anew', async () => {
  await using log = await LogServer.start()
  await using proxy = await Proxy.start(log.server)
  await using edge = await LocalEdge.start(`nats://127.0.0.1:${proxy.port}`)
  await writeRange(log.nats, 'grown', 1, 1)
  const client = new SseClient({ urls: [`${edge.url}/runs/grown/events`], reconnects: false })
  await client.until('the first event', () => client.lastEventId?.endsWith('-1') === true, 10_000)
  const hold = await edge.edge.store.feeds.hold(runScope(edge.edge.store.nats, 'grown'))
  const reaches = (held: { waiting: () => Buffer }, text: string) =>
    eventually(`${text} waits`, () => held.waiting().includes(text))

  // Each answer to the check arrives with events that are newer than it.
  const first = proxy.holdDown()
  const checked = { done: false }
  const checking = hold.feed.check().then(() => (checked.done = true))
  await reaches(first, 'event 1')
  await writeRange(log.nats, 'grown', 2, 3)
  await reaches(first, 'event 3')
  const asking = proxy.holdUp()
  first.flow()
  await eventually('the new events are heard', () => hold.feed.last.mark === 3)
  const second = proxy.holdDown()
  asking.flow()
  await eventually('the check is answered', () => checked.done || second.waiting().includes('last_seq'))
  await writeRange(log.nats, 'grown', 4, 5)
  await reaches(second, 'event 5')
  second.flow()
  await checking
  await client.until('all events', () => client.lastEventId?.endsWith('-5') === true, 10_000)
  hold.release()
  await client.close()
  expect(client.frames.map(({ event }) => event)).not.toContain('stream.reset')
  checkConnection(client.frames, null)
})

/** Publishes what looks like the run's next event on its live subject, where no log has put it. */
function forge(log: LogServer, run: string, index: number, place: Record<string, number>): void {
  const map = eventHeaders(runEvent(index))
  for (const [name, value] of Object.entries(place)) map.set(name, String(value))
  log.nats.nc.publish(`live.run.${run}`, 'forged', { headers: map })
}

test('what somebody publishes on the live subject of a run is neither served nor waited for', async () => {
  await using log = await LogServer.start()
  await using edge = await LocalEdge.start(log.server.url, { checkMs: 600_000 })
  const last = await writeRange(log.nats, 'forged', 1, 3)
  await using client = new SseClient({ urls: [`${edge.url}/runs/forged/events`], reconnects: false })
  await client.untilEvents(3)
  const beyond = last + 1000
  forge(log, 'forged', 4, { 'Nats-Sequence': beyond, 'Nats-Last-Sequence': beyond - 1 })
  forge(log, 'forged', 5, { 'Nats-Sequence': beyond + 1, 'Nats-Last-Sequence': beyond })
  forge(log, 'forged', 4, { 'Nats-Sequence': beyond + 2 })
  const refills = async () => Number(/^baton_edge_refills_total (\d+)/m.exec(await edge.edge.registry.metrics())?.[1])
  await eventually('the log was asked', async () => (await refills()) > 0)
  await writeRange(log.nats, 'forged', 4, 30)
  await client.untilEvents(30)
  await eventually('the log is left alone', async () => {
    const before = edge.natsSent
    await steadily('nothing is asked', () => edge.natsSent === before, 1200)
    return true
  })
  const before = edge.natsSent
  await writeRange(log.nats, 'forged', 31, 40)
  await client.untilEvents(40)
  expect(edge.natsSent).toBe(before)
  checkConnection(client.frames, null)
  expect(client.frames.map(({ event }) => event)).not.toContain('stream.reset')
  expect(client.frames.map(({ data }) => data)).not.toContain('forged')
})

test('of many idle feeds each one asks the log, however many are due before it', async () => {
  await using log = await LogServer.start()
  await using edge = await LocalEdge.start(log.server.url, { checkMs: 1000 })
  const runs = Array.from({ length: 220 }, (_, at) => `idle-${at}`)
  await Promise.all(runs.map((run) => writeRange(log.nats, run, 1, 1)))
  const holds = await Promise.all(runs.map((run) => edge.edge.store.feeds.hold(runScope(edge.edge.store.nats, run))))
  // Nothing is republished, so nothing is heard: as for an edge that was cut off at the wrong moment.
  await log.silence()
  await Promise.all(runs.map((run) => writeRange(log.nats, run, 2, 2)))
  await eventually('every feed has what it did not hear', () => {
    const behind = holds.flatMap(({ feed }) => (feed.last.mark === 2 ? [] : feed.scope.name))
    if (behind.length > 0) throw new Error(`${behind.length} have not, the first is ${behind[0]}`)
    return true
  })
  for (const hold of holds) hold.release()
})
