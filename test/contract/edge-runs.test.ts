import { describe, expect, test } from 'vitest'
import { WATCHDOG, type RunStatus } from '@baton/core/records'
import { deleteKey, writeKey } from '@baton/store/bucket'
import { writeClaim } from '@baton/store/claim-store'
import { writeHeartbeat } from '@baton/store/heartbeats'
import { BUCKET, cursorSubject } from '@baton/store/names'
import { sendBeat } from '@baton/store/peers'
import { readRegistration, writeStatus } from '@baton/store/registry'
import { eventually } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient } from '../kit/sse-client.ts'
import { endEvent, runEvent, writeCursor, writeEvents, writeRange } from '../kit/write-events.ts'

/** The registry of runs, and what is shown of them. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url))
})

type Answer = { status: number; location: string | null; body: Record<string, unknown> }
async function ask(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(`${edge.url}${path}`, init)
  const body = (await response.json()) as Record<string, unknown>
  return { status: response.status, location: response.headers.get('location'), body }
}
const post = (path: string, body: unknown): Promise<Answer> =>
  ask(path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) })

const URL_OF_AGENT = 'http://127.0.0.1:9/stream'
const status = (over: Partial<RunStatus> = {}): RunStatus => ({
  state: 'running',
  end: null,
  relay: 'relay-1',
  boot: 'b1',
  epoch: 7,
  jobs: [{ job: 'main', state: 'connected', reason: null, failingSince: null }],
  since: new Date().toISOString(),
  ...over,
})

describe('registering', () => {
  test('stores what is wanted and shows it', async () => {
    const made = await post('/runs', { run: 'new', url: URL_OF_AGENT, labels: { team: 'a' } })
    expect(made).toMatchObject({ status: 201, location: '/runs/new' })
    expect(made.body).toEqual({
      run: 'new',
      state: 'waiting',
      end: null,
      owner: null,
      position: '0-0',
      first: null,
      head: null,
      livenessAgeMs: null,
      progressAgeMs: null,
      health: null,
      jobs: [{ job: 'main', state: 'waiting', upstreamId: null, ordinal: 0, reason: null }],
      subscribers: 0,
      labels: { team: 'a' },
    })
    expect((await readRegistration(log.nats, 'new'))?.spec.ok).toBe(true)
    expect(await ask('/runs/new')).toMatchObject({ status: 200, body: made.body })
  })

  test('the same again is no error, another body under the same id is', async () => {
    const body = { run: 'twice', jobs: [{ url: URL_OF_AGENT }] }
    expect((await post('/runs', body)).status).toBe(201)
    expect((await post('/runs', { run: 'twice', url: URL_OF_AGENT })).status).toBe(200)
    expect((await post('/runs', { ...body, quietMs: 5 })).status).toBe(409)
  })

  test('makes an id where none is given', async () => {
    const one = await post('/runs', { url: URL_OF_AGENT })
    const two = await post('/runs', { url: URL_OF_AGENT })
    expect(one.body['run']).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
    expect(one.location).toBe(`/runs/${String(one.body['run'])}`)
    expect(two.body['run']).not.toBe(one.body['run'])
  })

  test.each([
    ['no JSON', '{'],
    ['no object', '[]'],
    ['no url', { run: 'bad' }],
    ['a file', { run: 'bad', url: 'file:///etc/passwd' }],
    ['an id that cannot be', { run: 'a.b', url: URL_OF_AGENT }],
    ['the id of a route', { run: 'events', url: URL_OF_AGENT }],
    [
      'two jobs of one name',
      {
        run: 'bad',
        jobs: [
          { job: 'a', url: URL_OF_AGENT },
          { job: 'a', url: URL_OF_AGENT },
        ],
      },
    ],
    ['a credential in the clear', { run: 'bad', url: URL_OF_AGENT, headers: { Authorization: 'Bearer x' } }],
    ['a field nobody knows', { run: 'bad', url: URL_OF_AGENT, lables: {} }],
  ])('%s is refused', async (_, body) => {
    expect(await post('/runs', body)).toMatchObject({ status: 400, body: { code: 'invalid' } })
    expect(await readRegistration(log.nats, 'bad')).toBeNull()
  })

  test('what is no UTF-8 is refused, and a mark that says it is UTF-8 is passed by', async () => {
    const bytes = (label: Uint8Array, before = '') =>
      Buffer.concat([
        Buffer.from(`${before}{"run":"bytes","url":"${URL_OF_AGENT}","labels":{"a":"`),
        label,
        Buffer.from('"}}'),
      ])
    const send = (body: Buffer) => ask('/runs', { method: 'POST', body: new Uint8Array(body) })
    expect(await send(bytes(Buffer.from([0xe9])))).toMatchObject({ status: 400, body: { code: 'invalid' } })
    const made = await send(bytes(Buffer.from('é'), '\uFEFF'))
    expect(made).toMatchObject({ status: 201, body: { labels: { a: 'é' } } })
  })

  test('more than a registration can be is refused', async () => {
    expect(await post('/runs', `"${'x'.repeat(300_000)}"`)).toMatchObject({ status: 413 })
  })

  test('a body that comes in chunks, its length unsaid, is read and limited like any other', async () => {
    const inChunks = (chunks: readonly string[]) =>
      ask('/runs', {
        method: 'POST',
        body: ReadableStream.from(chunks.map((chunk) => Buffer.from(chunk))),
        duplex: 'half',
      })
    expect(await inChunks(['{"run":"chunked",', `"url":"${URL_OF_AGENT}"}`])).toMatchObject({ status: 201 })
    expect(await inChunks(Array.from({ length: 30 }, () => 'x'.repeat(10_000)))).toMatchObject({ status: 413 })
  })

  test('an ended run’s id stays its own', async () => {
    await post('/runs', { run: 'over', url: URL_OF_AGENT })
    await writeStatus(log.nats, 'over', status({ state: 'ended', end: { reason: 'completed', detail: null } }))
    expect(await post('/runs', { run: 'over', url: URL_OF_AGENT })).toMatchObject({ status: 409 })
  })

  test('an ended run’s id stays its own from the moment its end is in the log, whatever its status says yet', async () => {
    await post('/runs', { run: 'just-over', url: URL_OF_AGENT })
    await writeStatus(log.nats, 'just-over', status())
    await writeEvents(log.nats, 'just-over', [runEvent(1), endEvent(2)])
    for (const body of [
      { run: 'just-over', url: URL_OF_AGENT },
      { run: 'just-over', url: URL_OF_AGENT, quietMs: 5 },
    ]) {
      expect(await post('/runs', body)).toMatchObject({
        status: 409,
        body: { detail: expect.stringContaining('ended') },
      })
    }
    await writeEvents(log.nats, 'never-asked-for', [endEvent(1)])
    expect(await post('/runs', { run: 'never-asked-for', url: URL_OF_AGENT })).toMatchObject({ status: 409 })
    expect(await readRegistration(log.nats, 'never-asked-for')).toBeNull()
  })
})

describe('cancelling', () => {
  test('asks once or more, and after the end shows the end there was', async () => {
    await post('/runs', { run: 'cancelled', url: URL_OF_AGENT })
    expect((await post('/runs/cancelled/cancel', '')).status).toBe(202)
    expect((await post('/runs/cancelled/cancel', '')).status).toBe(202)
    expect((await readRegistration(log.nats, 'cancelled'))?.spec).toMatchObject({ value: { cancel: true } })
    await writeStatus(log.nats, 'cancelled', status({ state: 'ended', end: { reason: 'cancelled', detail: null } }))
    const after = await post('/runs/cancelled/cancel', '')
    expect(after).toMatchObject({ status: 200, body: { end: { reason: 'cancelled', detail: null } } })
    expect((await post('/runs/unknown/cancel', '')).status).toBe(404)
  })

  test('a run that was begun, and whose record was made invalid since, can be ended all the same', async () => {
    await post('/runs', { run: 'spoilt', url: URL_OF_AGENT })
    await writeKey(log.nats, BUCKET.runs, 'spoilt', 'not JSON')
    expect((await post('/runs/spoilt/cancel', '')).status).toBe(409)
    await writeStatus(log.nats, 'spoilt', status())
    expect((await post('/runs/spoilt/cancel', '')).status).toBe(202)
    expect((await readRegistration(log.nats, 'spoilt'))?.spec).toMatchObject({ ok: true, value: { cancel: true } })
  })

  test('a run that was begun, and whose key was deleted since, has been asked for already', async () => {
    await post('/runs', { run: 'deleted', url: URL_OF_AGENT })
    await writeStatus(log.nats, 'deleted', status())
    await deleteKey(log.nats, BUCKET.runs, 'deleted')
    expect(await post('/runs/deleted/cancel', '')).toMatchObject({ status: 202, body: { state: 'running' } })
    expect(await readRegistration(log.nats, 'deleted')).toBeNull()
  })
})

describe('a run', () => {
  test('shows its owner, where its log and its jobs stand, and its signs of life', async () => {
    await post('/runs', { run: 'shown', url: URL_OF_AGENT })
    const last = await writeRange(log.nats, 'shown', 1, 5)
    await writeCursor(log.nats, 'shown', { index: 3, sequence: last - 2, jobs: {} })
    await writeClaim(log.nats, 'shown', { relay: 'relay-1', boot: 'b1', epoch: null, since: '' }, 0, 15_000)
    await writeStatus(log.nats, 'shown', status())
    await writeHeartbeat(log.nats, 'liveness', 'shown', { relay: 'relay-1', at: '', job: 'main' }, 60_000)
    const { body } = await ask('/runs/shown')
    expect(body).toMatchObject({
      state: 'running',
      owner: { relay: 'relay-1', boot: 'b1', epoch: null },
      position: `${last}-5`,
      first: { sequence: last - 4, index: 1 },
      head: { sequence: last, index: 5 },
      progressAgeMs: null,
      jobs: [{ job: 'main', state: 'connected', upstreamId: 'u-5', ordinal: 5, reason: null }],
    })
    expect(body['livenessAgeMs']).toBeGreaterThanOrEqual(0)
    expect(body['livenessAgeMs']).toBeLessThan(30_000)
  })

  test('counts who follows it here, alone or among others, and no longer than they do', async () => {
    for (const run of ['watched-1', 'watched-2']) await post('/runs', { run, url: URL_OF_AGENT })
    const counts = async () =>
      Promise.all(['watched-1', 'watched-2'].map(async (run) => (await ask(`/runs/${run}`)).body['subscribers']))
    {
      const open = (path: string) => new SseClient({ urls: [`${edge.url}${path}`], reconnects: false })
      await using alone = open('/runs/watched-1/events')
      await using set = open('/runs/events?run=watched-1&run=watched-2')
      for (const client of [alone, set]) await client.until('it is open', ({ event }) => event === 'stream.open')
      expect(await counts()).toEqual([2, 1])
      const listed = (await ask('/runs?limit=500')).body['runs'] as { run: string; subscribers: number }[]
      expect(listed.find(({ run }) => run === 'watched-1')).toMatchObject({ subscribers: 2 })
    }
    await eventually('they have left', async () => (await counts()).every((count) => count === 0))
  })

  test('is over when its log says so, whatever its status says yet', async () => {
    await writeEvents(log.nats, 'log-ended', [runEvent(1), endEvent(2)])
    expect((await ask('/runs/log-ended')).body).toMatchObject({
      state: 'ended',
      end: { reason: 'completed', detail: null },
    })
  })

  test('of several jobs shows where each of them stands, whichever spoke last', async () => {
    const jobs = ['a', 'b'].map((job) => ({ job, url: URL_OF_AGENT }))
    await post('/runs', { run: 'pair', jobs })
    await writeEvents(log.nats, 'pair', [
      ...[1, 2, 3].map((index) => runEvent(index, { job: 'a' })),
      ...[4, 5].map((index) => runEvent(index, { job: 'b', ordinal: index - 3 })),
    ])
    expect((await ask('/runs/pair')).body).toMatchObject({
      jobs: [
        { job: 'a', ordinal: 3, upstreamId: 'u-3' },
        { job: 'b', ordinal: 2, upstreamId: 'u-5' },
      ],
    })
  })

  test('whose end was stored a moment ago has jobs that have ended, whatever its status says yet', async () => {
    const ended = async (run: string, end: object, events = [runEvent(1)]) => {
      await post('/runs', { run, url: URL_OF_AGENT })
      await writeStatus(log.nats, run, status())
      await writeEvents(log.nats, run, [...events, { ...endEvent(events.length + 1), data: JSON.stringify(end) }])
      return (await ask(`/runs/${run}`)).body
    }
    const job = { job: 'main', ordinal: 1, upstreamId: 'u-1' }
    expect(await ended('end-1', { reason: 'completed' })).toMatchObject({
      jobs: [{ ...job, state: 'completed', reason: null }],
    })
    expect(await ended('end-2', { reason: 'cancelled' })).toMatchObject({ jobs: [{ ...job, state: 'cancelled' }] })
    expect(await ended('end-3', { reason: 'failed', detail: 'answered 400' })).toMatchObject({
      jobs: [{ ...job, state: 'failed', reason: 'answered 400' }],
    })
    const terminal = runEvent(1, { type: 'failed', name: 'failed' })
    expect(await ended('end-4', { reason: 'failed' }, [terminal])).toMatchObject({
      jobs: [{ ...job, state: 'failed', reason: null }],
    })
  })

  test('of an invalid record shows why, and harms no other', async () => {
    await writeKey(log.nats, BUCKET.runs, 'broken', '{"url":"ftp://x"}')
    expect((await ask('/runs/broken')).body).toMatchObject({ state: 'invalid', reason: expect.stringContaining('url') })
    expect((await ask('/runs/shown')).status).toBe(200)
  })

  test.each([
    'garbage',
    '{"state":"ended"}',
    '{"state":"running","jobs":5}',
    '{"state":"ended","end":{},"jobs":[null]}',
  ])('whose status and checkpoint hold what nobody of ours wrote (%s) is shown as it is, and listed', async (text) => {
    const run = `scribbled-${text.length}`
    await post('/runs', { run, url: URL_OF_AGENT })
    await writeRange(log.nats, run, 1, 2)
    await writeKey(log.nats, BUCKET.status, run, text)
    await log.nats.js.publish(cursorSubject(run), text)
    const shown = { run, state: 'waiting', end: null, head: { index: 2 }, jobs: [{ job: 'main', ordinal: 2 }] }
    expect(await ask(`/runs/${run}`)).toMatchObject({ status: 200, body: shown })
    expect((await post(`/runs/${run}/cancel`, '')).status).toBe(202)
    expect((await ask('/runs?state=waiting')).status).toBe(200)
  })

  test('nobody has heard of is not found', async () => {
    expect((await ask('/runs/unheard')).status).toBe(404)
    expect((await ask('/runs/not.an.id')).status).toBe(404)
  })
})

describe('the list', () => {
  test('is paged by id, and filtered by state and labels', async () => {
    for (const run of ['l-1', 'l-2', 'l-3', 'l-4']) {
      await post('/runs', { run, url: URL_OF_AGENT, labels: { list: 'yes', odd: String(Number(run.slice(2)) % 2) } })
    }
    await writeStatus(log.nats, 'l-4', status({ state: 'ended', end: { reason: 'failed', detail: 'x' } }))
    const list = async (query: string) => {
      const { body } = await ask(`/runs?label=list:yes&${query}`)
      return { ids: (body['runs'] as { run: string }[]).map(({ run }) => run), next: body['next'] }
    }
    await eventually(
      'the list knows them all',
      async () => (await list('')).ids.length === 4 && (await list('state=ended')).ids.length === 1,
    )
    expect(await list('limit=2')).toEqual({ ids: ['l-1', 'l-2'], next: 'l-2' })
    expect(await list('limit=2&after=l-2')).toEqual({ ids: ['l-3', 'l-4'], next: null })
    expect(await list('state=waiting&label=odd:1')).toEqual({ ids: ['l-1', 'l-3'], next: null })
    expect(await list('state=ended')).toEqual({ ids: ['l-4'], next: null })
    expect((await ask('/runs?state=unknown')).status).toBe(400)
    await writeStatus(log.nats, 'l-3', status())
    await writeEvents(log.nats, 'l-3', [endEvent(1)])
    await eventually('the list knows that it was begun', async () => (await list('state=waiting')).ids.length === 2)
    // It has ended, though its status does not say so yet: who asks for those that run is not shown one that does not.
    expect(await list('state=running')).toEqual({ ids: [], next: null })
    // More than a page ever has is no mistake: a page may be shorter than was asked for, and says where it goes on.
    expect(await list('limit=1000000')).toEqual({ ids: ['l-1', 'l-2', 'l-3', 'l-4'], next: null })
  })
})

test('relays are shown as they beat', async () => {
  const beat = { relay: 'relay-1', boot: 'b1', pid: 1, host: 'h', runs: 3, draining: false, loopLagMs: 2 }
  const relays = await eventually('the beat is heard', async () => {
    // A watchdog beats, too, while it ends an orphan; it is no relay.
    sendBeat(log.nats, { ...beat, relay: WATCHDOG, boot: 'b0' })
    sendBeat(log.nats, beat)
    const response = await fetch(`${edge.url}/relays`)
    const list = (await response.json()) as Record<string, unknown>[]
    return list.length > 0 ? list : null
  })
  expect(relays).toMatchObject([beat])
  expect(relays[0]?.['beatAgeMs']).toBeGreaterThanOrEqual(0)
})

test('the description has every route and the schemas that check them', async () => {
  const { body } = await ask('/openapi.json')
  const paths = body['paths'] as Record<string, Record<string, unknown>>
  expect(Object.keys(paths).sort()).toEqual([
    '/livez',
    '/metrics',
    '/readyz',
    '/relays',
    '/runs',
    '/runs/events',
    '/runs/{run}',
    '/runs/{run}/cancel',
    '/runs/{run}/events',
    '/runs/{run}/history',
    '/tickets',
    '/topics',
    '/topics/events',
    '/topics/{topic}',
  ])
  expect(Object.keys(paths['/runs'] ?? {}).sort()).toEqual(['get', 'post'])
  expect(JSON.stringify(body)).toContain('"additionalProperties":false')
})

test('the figures are there, and count what was written', async () => {
  await writeEvents(log.nats, 'counted', [runEvent(1), endEvent(2)])
  await (await fetch(`${edge.url}/runs/counted/events`)).text()
  const text = await (await fetch(`${edge.url}/metrics`)).text()
  for (const name of ['baton_edge_clients', 'baton_edge_opens_total', 'baton_edge_flush_seconds_bucket']) {
    expect(text).toContain(name)
  }
  expect(Number(/^baton_edge_events_total (\d+)$/m.exec(text)?.[1])).toBeGreaterThanOrEqual(2)
})
