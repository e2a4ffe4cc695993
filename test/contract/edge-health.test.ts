import { describe, expect, test } from 'vitest'
import type { Verdict } from '@baton/core/judge'
import { storeAlert } from '@baton/store/alerts'
import { writeKey } from '@baton/store/bucket'
import { releaseClaim, writeClaim } from '@baton/store/claim-store'
import { writeBusy, writeHeartbeat } from '@baton/store/heartbeats'
import { BUCKET } from '@baton/store/names'
import { writeStatus } from '@baton/store/registry'
import { eventually, steadily } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient, type Received } from '../kit/sse-client.ts'
import { wantRun } from '../kit/want-run.ts'
import { endEvent, runEvent, writeEvents } from '../kit/write-events.ts'

/** How runs fare, as an edge shows it: by the judge of the watchdog, from what this edge has seen itself. */

const thresholds = { quietMs: 2000, stallMs: 6000, disconnectMs: 3000, orphanMs: 60_000, ownerlessMs: 3000 }
const config = { thresholds, heartbeatMs: 1000 }

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url, config))
})

type Shown = { health: Verdict | null; livenessAgeMs: number | null; progressAgeMs: number | null }

const show = async (run: string, at = edge): Promise<Shown> =>
  (await (await fetch(`${at.url}/runs/${run}`)).json()) as Shown

const fares = (run: string, health: Verdict | null, at = edge): Promise<unknown> =>
  eventually(
    `${run} is ${health}`,
    async () => {
      const shown = await show(run, at)
      if (shown.health !== health) throw new Error(JSON.stringify(shown))
      return true
    },
    { withinMs: 20_000 },
  )

const want = (run: string, over: Readonly<Record<string, unknown>> = {}): Promise<void> => wantRun(log.nats, run, over)

const claim = (run: string, boot = 'b1', revision = 0): Promise<number> =>
  writeClaim(log.nats, run, { relay: 'relay-1', boot, epoch: 7, since: '' }, revision, 3_600_000)

const beat = (kind: 'liveness' | 'progress', run: string): Promise<void> =>
  writeHeartbeat(log.nats, kind, run, { relay: 'relay-1', at: '', job: 'main' }, 3_600_000)

const status = (run: string, state: 'connected' | 'failing' = 'connected', to = log): Promise<void> =>
  writeStatus(to.nats, run, {
    state: 'running',
    end: null,
    relay: 'relay-1',
    boot: 'b1',
    epoch: 7,
    jobs: [{ job: 'main', state, reason: null, failingSince: null }],
    since: new Date().toISOString(),
  })

/** A run at work: wanted, claimed, connected, with both heartbeats. */
async function begin(run: string, over: Readonly<Record<string, unknown>> = {}): Promise<number> {
  await want(run, over)
  const revision = await claim(run)
  await Promise.all([status(run), beat('liveness', run), beat('progress', run)])
  return revision
}

describe.concurrent('health', () => {
  test('goes with progress: running, quiet, stalled, and running again; liveness has no say in it', async () => {
    await begin('worker')
    await fares('worker', 'running')
    using _bytes = every(300, () => void beat('liveness', 'worker'))
    await fares('worker', 'quiet')
    await fares('worker', 'stalled')
    const shown = await show('worker')
    expect(shown.progressAgeMs).toBeGreaterThan(thresholds.stallMs - 1)
    expect(shown.livenessAgeMs).toBeLessThan(shown.progressAgeMs ?? 0)
    await beat('progress', 'worker')
    await fares('worker', 'running')
  })

  test('of a silent run with fresh progress is running: the two heartbeats are not each other', async () => {
    await want('silent')
    await claim('silent')
    await status('silent')
    using _work = every(300, () => void beat('progress', 'silent'))
    await beat('progress', 'silent')
    await steadily('it runs', async () => (await show('silent')).health === 'running', thresholds.quietMs + 2000)
  })

  test('counts from the end of the time an agent said it would be busy', async () => {
    await begin('busy')
    await writeBusy(log.nats, 'busy', { relay: 'relay-1', at: '', job: 'main', forMs: 4000 }, 60_000)
    await steadily('it runs', async () => (await show('busy')).health === 'running', 4000)
    await fares('busy', 'quiet')
  })

  test('goes by the thresholds of the run', async () => {
    await begin('patient', { quietMs: 3_600_000, stallMs: 3_600_000 })
    await steadily('it runs', async () => (await show('patient')).health === 'running', thresholds.quietMs + 2000)
  })

  test('is disconnected without an owner, and without a connection and a byte; orphaned without progress as well', async () => {
    const patient = { quietMs: 3_600_000, stallMs: 3_600_000, orphanMs: 6000 }
    const [ownerless] = await Promise.all([begin('ownerless', patient), begin('unconnected', patient)])
    await Promise.all([fares('ownerless', 'running'), fares('unconnected', 'running')])
    await releaseClaim(log.nats, 'ownerless', ownerless)
    await status('unconnected', 'failing')
    using _work = every(300, () => void beat('progress', 'ownerless'))
    await Promise.all([fares('ownerless', 'disconnected'), fares('unconnected', 'disconnected')])
    await fares('unconnected', 'orphaned')
    expect((await show('ownerless')).health).toBe('disconnected')
  })

  test('of a run that waits is null, and disconnected when nobody takes it for too long', async () => {
    await want('nobodys')
    expect((await show('nobodys')).health).toBe(null)
    await fares('nobodys', 'disconnected')
  })

  test('of an invalid registration is null, of an ended run it is ended, also where only the log knows', async () => {
    await writeKey(log.nats, BUCKET.runs, 'invalid', '{"url":"ftp://x"}')
    expect((await show('invalid')).health).toBe(null)
    await want('over')
    await writeEvents(log.nats, 'over', [runEvent(1), endEvent(2)])
    expect((await show('over')).health).toBe('ended')
  })

  test('is not guessed by an edge that has just started: null, or what a watchdog has told; a healthy run is running', async () => {
    await Promise.all([begin('doubtful'), begin('told'), begin('plain')])
    using _work = every(300, () => void beat('progress', 'plain'))
    await Promise.all([fares('doubtful', 'stalled'), fares('told', 'stalled')])
    const alert = { run: 'told', verdict: 'stalled', previous: 'quiet', since: '', epoch: 7 } as const
    await storeAlert(log.nats, alert, 0, 'dog')
    await using late = await LocalEdge.start(log.server.url, config)
    expect((await show('doubtful', late)).health).toBe(null)
    expect((await show('told', late)).health).toBe('stalled')
    expect((await show('plain', late)).health).toBe('running')
    // It has seen for itself as soon as it has looked for as long as the threshold says.
    await fares('doubtful', 'quiet', late)
    await fares('doubtful', 'stalled', late)
  })
})

test('NATS away: nobody is judged on what could not be written', async () => {
  await using server = await LogServer.start()
  await using far = await LocalEdge.start(server.server.url, config)
  const nats = server.nats
  await wantRun(nats, 'far')
  await writeClaim(nats, 'far', { relay: 'relay-1', boot: 'b1', epoch: 7, since: '' }, 0, 3_600_000)
  await status('far', 'connected', server)
  await writeHeartbeat(nats, 'progress', 'far', { relay: 'relay-1', at: '', job: 'main' }, 3_600_000)
  await fares('far', 'running', far)
  await fares('far', 'quiet', far)
  await server.server.kill()
  await eventually('it is not there', async () => (await fetch(`${far.url}/runs/far`)).status === 503)
  await new Promise((resolve) => setTimeout(resolve, thresholds.stallMs))
  await server.server.start()
  await eventually('it is there again', async () => (await fetch(`${far.url}/runs/far`)).status === 200)
  // Its progress is older than every threshold by now; whether there was more nobody can know. A slow machine has seen
  // enough by now to call it quiet.
  expect([null, 'quiet']).toContain((await show('far', far)).health)
  await fares('far', 'quiet', far)
  await fares('far', 'stalled', far)
})

test('a list asks for the signs of all its runs together', async () => {
  const runs = Array.from({ length: 200 }, (_, at) => `many-${String(at).padStart(3, '0')}`)
  await Promise.all(runs.map((run) => begin(run, { labels: { of: 'many' } })))
  const list = async (limit: number) => {
    const path = `/runs?label=of:many&limit=${limit}`
    return ((await (await fetch(`${edge.url}${path}`)).json()) as { runs: Shown[] }).runs
  }
  await eventually('all are listed', async () => (await list(200)).length === 200)
  const sent = async (limit: number) => {
    const before = edge.natsSent
    const shown = await list(limit)
    expect(shown.every(({ health, progressAgeMs }) => health !== null && progressAgeMs !== null)).toBe(true)
    return edge.natsSent - before
  }
  // What is asked of the log for each run is the difference; nothing is asked of the heartbeats for each.
  const readingsOfLog = 3
  expect(await sent(200)).toBeLessThan(200 * readingsOfLog + 40)
})

describe('stream.status', () => {
  const follow = (run: string, query: string, at = edge, headers = {}) =>
    new SseClient({ urls: [`${at.url}/runs/${run}/events${query}`], reconnects: false, headers })
  const statuses = (client: SseClient): Received[] => client.frames.filter(({ event }) => event === 'stream.status')
  const said = (frame: Received | undefined) => JSON.parse(frame?.data ?? 'null') as Record<string, unknown>

  test('comes second, on change, and with every heartbeat; it has no id and passes every filter', async () => {
    const revision = await begin('followed')
    await writeEvents(log.nats, 'followed', [runEvent(1), runEvent(2)])
    using _work = every(300, () => void beat('progress', 'followed'))
    await using plain = follow('followed', '?status=1')
    await using filtered = follow('followed', '?status=1&types=nothing&format=envelope')
    await using without = follow('followed', '?status=0')
    await plain.until('a status', ({ event }) => event === 'stream.status')
    expect(plain.frames.slice(0, 2).map(({ event }) => event)).toEqual(['stream.open', 'stream.status'])
    const [first] = statuses(plain)
    expect(first?.id).toBe(null)
    expect(said(first)).toEqual({
      owner: { relay: 'relay-1', boot: 'b1' },
      epoch: 7,
      head: { sequence: expect.any(Number), index: 2 },
      livenessAgeMs: expect.any(Number),
      progressAgeMs: expect.any(Number),
      health: 'running',
    })
    await eventually('heartbeats come', () => statuses(plain).length >= 3)
    const times = statuses(plain).map(({ atMs }) => atMs)
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan((times.length - 2) * config.heartbeatMs * 0.8)
    await claim('followed', 'b2', revision)
    for (const client of [plain, filtered]) {
      await client.until('the new owner', (frame) => {
        const owner = frame.event === 'stream.status' ? (said(frame)['owner'] as { boot: string }) : null
        return owner?.boot === 'b2'
      })
    }
    // The bare data in the envelope format as well, and what a filter hides is still told as a position.
    expect(Object.keys(said(statuses(filtered)[0]))).toContain('health')
    await filtered.until('its position', ({ event }) => event === 'stream.position')
    expect(statuses(without)).toEqual([])
    await writeEvents(log.nats, 'followed', [endEvent(3)])
    await plain.done
    expect(plain.frames.at(-1)?.event).toBe('stream.end')
  })

  test('tells of trouble as it begins', async () => {
    await begin('stalling')
    await using client = follow('stalling', '?status=1&from=now')
    for (const health of ['running', 'quiet', 'stalled']) {
      await client.until(health, (frame) => frame.event === 'stream.status' && said(frame)['health'] === health, 20_000)
    }
  })

  test('a malformed status is refused', async () => {
    expect((await fetch(`${edge.url}/runs/followed/events?status=yes`)).status).toBe(400)
  })

  test('is worked out once for all clients of a run, and not at all when nobody asks', async () => {
    await using idle = await LocalEdge.start(log.server.url, { ...config, heartbeatMs: 60_000 })
    await begin('shared')
    const sentIn = async (ms: number) => {
      const before = idle.natsSent
      await new Promise((resolve) => setTimeout(resolve, ms))
      return idle.natsSent - before
    }
    const crowd = (count: number, query: string) =>
      Array.from({ length: count }, () => follow('shared', `?from=now${query}`, idle))
    await using stack = new AsyncDisposableStack()
    const join = async (clients: SseClient[]) => {
      for (const client of clients) stack.use(client)
      await Promise.all(clients.map((client) => client.until('the open', ({ event }) => event === 'stream.open')))
    }
    await join(crowd(20, ''))
    await eventually('it has read what there is', () => idle.edge.store.runs.whole)
    const unasked = await sentIn(4000)
    await join(crowd(1, '&status=1'))
    const one = await sentIn(4000)
    await join(crowd(40, '&status=1'))
    const many = await sentIn(4000)
    // One look a second, two messages at most: the question for the signs, and the one for alerts.
    expect(one).toBeGreaterThan(unasked)
    expect(many).toBeLessThan(one + 12)
  })
})

/** Does something every so often until what it returns is disposed of. */
function every(ms: number, work: () => void): Disposable {
  const timer = setInterval(work, ms)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
