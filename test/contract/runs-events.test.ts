import { expect, test } from 'vitest'
import { runSubject, STREAM } from '@baton/store/names'
import { writeStatus } from '@baton/store/registry'
import { eventually } from '../kit/eventually.ts'
import { followRuns, json, type FollowOptions } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import type { Received, SseClient } from '../kit/sse-client.ts'
import { sequenceOf } from '../kit/topics.ts'
import { wantRun } from '../kit/want-run.ts'
import { endEvent, runEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** Several runs on one connection: the order of the log, every end, and then nothing more. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start({ runEvents: 100 }))
  edge = keep(await LocalEdge.start(log.server.url, { checkMs: 200, heartbeatMs: 200, lingerMs: 50 }))
})

const follow = (runs: readonly string[], options?: FollowOptions): SseClient => followRuns(edge, runs, options)

const told = (client: SseClient): string[] =>
  client.events.map((frame) => {
    const { run, index, reason } = json(frame)
    return `${String(run)} ${String(frame.event === 'stream.end' ? reason : index)}`
  })

test('enveloped, in the order of the log, from the start and live, until all have ended', async () => {
  for (let at = 1; at <= 10; at++) {
    await writeRange(log.nats, 'm1', at, at)
    await writeRange(log.nats, 'm2', at, at)
    await writeRange(log.nats, 'not-asked', at, at)
  }
  await using client = follow(['m2', 'm1'], { query: '&from=start' })
  await client.untilEvents(20)
  const [open] = client.frames
  expect(open).toMatchObject({ event: 'stream.open' })
  expect(json(open as Received)).toMatchObject({ missed: 0, first: { sequence: expect.any(Number) as number } })
  expect(client.events[0]?.event).toBeNull()
  expect(json(client.events[1] as Received)).toMatchObject({ run: 'm2', index: 1, job: 'main', data: 'event 1' })
  const gap = runEvent(11, { type: 'stream.gap', data: JSON.stringify({ job: 'main', reason: 'window', lost: 3 }) })
  await writeEvents(log.nats, 'm1', [gap, endEvent(12)])
  await writeRange(log.nats, 'm2', 11, 13)
  await client.untilEvents(25)
  expect(json(client.events[20] as Received)).toEqual({ run: 'm1', job: 'main', reason: 'window', lost: 3 })
  expect(client.events.slice(20).map(({ event }) => event)).toEqual(['stream.gap', 'stream.end', null, null, null])
  await writeEvents(log.nats, 'm2', [endEvent(14)])
  await client.done
  expect(told(client).slice(21)).toEqual(['m1 completed', 'm2 11', 'm2 12', 'm2 13', 'm2 completed'])
  const sequences = client.events.map(sequenceOf)
  expect(sequences).toEqual([...sequences].sort((one, other) => one - other))

  await using over = follow(['m1', 'm2'], { lastEventId: client.lastEventId ?? '' })
  await over.done
  expect(over.openings[0]?.status).toBe(204)
  await using before = follow(['m1', 'm2'], { lastEventId: client.events[21]?.id ?? '' })
  await before.done
  expect(told(before)).toEqual(['m2 11', 'm2 12', 'm2 13', 'm2 completed'])
  // From now on: the last end is what is left to be told.
  await using late = follow(['m1', 'm2'])
  await late.done
  expect(told(late)).toEqual(['m2 completed'])
  await using again = follow(['m1', 'm2'], { query: '&from=start' })
  await again.done
  expect(told(again)).toEqual(told(client))
})

test('from now on by default; one that came back stops by itself when all have ended', async () => {
  await writeRange(log.nats, 'n1', 1, 3)
  await writeRange(log.nats, 'n2', 1, 3)
  await using client = follow(['n1', 'n2'], { reconnects: true })
  await client.until('a first frame', () => true)
  await writeRange(log.nats, 'n1', 4, 5)
  await client.untilEvents(2)
  client.drop()
  await writeEvents(log.nats, 'n1', [endEvent(6)])
  await writeEvents(log.nats, 'n2', [runEvent(4), endEvent(5)])
  await client.done
  expect(told(client)).toEqual(['n1 4', 'n1 5', 'n1 completed', 'n2 4', 'n2 completed'])
  expect(client.openings.at(-1)?.status).toBe(204)
})

test('a filter on types lets every end through, and the position moves all the same', async () => {
  await writeRange(log.nats, 't1', 1, 1)
  await using client = follow(['t1'], { query: '&types=other' })
  await client.until('a first frame', () => true)
  const last = await writeEvents(log.nats, 't1', [runEvent(2), runEvent(3)])
  await client.until('a position', (frame) => frame.event === 'stream.position' && sequenceOf(frame) >= last)
  await writeEvents(log.nats, 't1', [runEvent(4, { type: 'other' }), endEvent(5)])
  await client.done
  expect(told(client)).toEqual(['t1 4', 't1 completed'])
})

test('trimmed past the position: one reset; another run beside a busy one: none', async () => {
  const early = await writeRange(log.nats, 'quiet-run', 1, 2)
  const message = await log.nats.jsm.streams.getMessage(STREAM.runs, { seq: early })
  const id = `${early}-${message?.time.getTime()}`
  await writeRange(log.nats, 'busy-run', 1, 250)
  await writeRange(log.nats, 'quiet-run', 3, 3)
  await using quiet = follow(['quiet-run'], { lastEventId: id })
  await quiet.untilEvents(1)
  expect(told(quiet)).toEqual(['quiet-run 3'])
  expect(quiet.frames[0]?.event).toBe('stream.open')
  await using both = follow(['quiet-run', 'busy-run'], { lastEventId: id })
  await both.untilEvents(101)
  expect(json(both.frames[0] as Received)).toMatchObject({ reason: 'trimmed', requested: id, missed: null })
  expect(told(both).slice(0, 2)).toEqual(['busy-run 151', 'busy-run 152'])
  expect(both.frames.filter(({ event }) => event === 'stream.reset')).toHaveLength(1)
  await using start = follow(['quiet-run', 'busy-run'], { query: '&from=start' })
  await start.untilEvents(103)
  expect(json(start.frames[0] as Received)).toMatchObject({ missed: 150 })
})

test('a run nobody knows, or too many, or none', async () => {
  await writeRange(log.nats, 'known', 1, 1)
  const status = async (query: string) => (await fetch(`${edge.url}/runs/events?${query}`)).status
  expect(await status('run=known&run=unknown-one')).toBe(404)
  expect(await status('run=a.b')).toBe(404)
  expect(await status('')).toBe(400)
  expect(await status(Array.from({ length: 101 }, (_, at) => `run=r${at}`).join('&'))).toBe(400)
  expect(await status('run=known&from=tomorrow')).toBe(400)
  await eventually('no feed is left', () => edge.edge.store.feeds.size === 0)
})

test('a run that is only registered is waited for; one of which nothing is kept tells its end', async () => {
  await wantRun(log.nats, 'fresh')
  await writeRange(log.nats, 'gone', 1, 2)
  const status = { relay: 'r', boot: 'b', epoch: 1, jobs: [], since: new Date().toISOString() }
  await writeStatus(log.nats, 'gone', { ...status, state: 'ended', end: { reason: 'failed', detail: 'why' } })
  await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('gone') })
  await using client = follow(['fresh', 'gone'])
  await client.until('a first frame', () => true)
  await writeEvents(log.nats, 'fresh', [runEvent(1), endEvent(2)])
  await client.done
  expect(told(client)).toEqual(['fresh 1', 'fresh completed'])
  await using alone = follow(['gone'])
  await alone.done
  expect(json(alone.events[0] as Received)).toEqual({ run: 'gone', reason: 'failed', detail: 'why' })
  await using over = follow(['gone'], { lastEventId: alone.lastEventId ?? '' })
  await over.done
  expect(over.openings[0]?.status).toBe(204)
})

test('any other way into a set that has ended leads to its last end, and out', async () => {
  await writeRange(log.nats, 'o1', 1, 2)
  await writeEvents(log.nats, 'o1', [endEvent(3)])
  const beyond = await writeRange(log.nats, 'still-at-work', 1, 3)
  for (const lastEventId of ['garbage', '1-1', `${beyond + 1000}-1`]) {
    await using stale = follow(['o1'], { lastEventId })
    await stale.done
    expect(stale.frames[0]).toMatchObject({ event: 'stream.reset', id: json(stale.frames[0] as Received).resumesAt })
    expect(told(stale)).toEqual(['o1 completed'])
  }
  await using behind = follow(['o1'], { query: `&from=${beyond}` })
  await behind.done
  expect(told(behind)).toEqual(['o1 completed'])
})

test('a set that has ended, purged while the edge follows it: whoever opens it then is told the end', async () => {
  await using slow = await LocalEdge.start(log.server.url, { lingerMs: 60_000 })
  await writeRange(log.nats, 'p1', 1, 2)
  await writeEvents(log.nats, 'p1', [endEvent(3)])
  const status = { relay: 'r', boot: 'b', epoch: 1, jobs: [], since: new Date().toISOString() }
  await writeStatus(log.nats, 'p1', { ...status, state: 'ended', end: { reason: 'completed', detail: null } })
  await using live = followRuns(slow, ['p1'])
  await live.done
  await using before = followRuns(slow, ['p1'], { lastEventId: live.lastEventId ?? '' })
  await before.done
  expect(before.openings[0]?.status).toBe(204)
  await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('p1') })
  for (const way of [{}, { query: '&from=start' }, { query: '&from=1' }, { lastEventId: 'garbage' }]) {
    await using client = followRuns(slow, ['p1'], way)
    await client.done
    expect(told(client).at(-1)).toBe('p1 completed')
    await using over = followRuns(slow, ['p1'], { lastEventId: client.lastEventId ?? '' })
    await over.done
    expect(over.openings[0]?.status).toBe(204)
  }
})

test('of a set that has ended, one run purged while the edge follows it: the rest is delivered, and every end told', async () => {
  await using slow = await LocalEdge.start(log.server.url, { lingerMs: 60_000 })
  const beganAt = new Date().toISOString()
  for (const run of ['q1', 'q2']) await writeRange(log.nats, run, 1, 2)
  await writeEvents(log.nats, 'q1', [endEvent(3)])
  await writeEvents(log.nats, 'q2', [{ ...endEvent(3), data: '{"reason":"failed","detail":"why"}' }])
  // As while the relay that ended it has not got to say so: what the log said is what counts.
  const status = { relay: 'r', boot: 'b', epoch: 1, jobs: [], since: new Date().toISOString() }
  await writeStatus(log.nats, 'q2', { ...status, state: 'running', end: null })
  await using live = followRuns(slow, ['q1', 'q2'])
  await live.done
  expect(told(live)).toEqual(['q2 failed'])
  await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('q2') })
  for (const query of ['&from=start', '&from=1', `&from=${beganAt}`, '&from=-3']) {
    await using client = followRuns(slow, ['q1', 'q2'], { query, reconnects: true })
    await client.done
    expect(told(client)).toEqual(['q1 1', 'q1 2', 'q1 completed', 'q2 failed'])
    expect(json(client.events.at(-1) as Received)).toEqual({ run: 'q2', reason: 'failed', detail: 'why' })
    expect(client.openings.at(-1)?.status).toBe(204)
  }
  for (const way of [{}, { lastEventId: 'garbage' }, { lastEventId: '1-1' }]) {
    await using client = followRuns(slow, ['q1', 'q2'], way)
    await client.done
    expect(told(client).at(-1)).toBe('q2 failed')
  }
})

test('equal sets share one consumer, and none is left when they have gone', async () => {
  await writeRange(log.nats, 's1', 1, 1)
  await writeRange(log.nats, 's2', 1, 1)
  const clients = [follow(['s1', 's2']), follow(['s2', 's1']), follow(['s2', 's1', 's2'])]
  for (const client of clients) await client.until('a first frame', () => true)
  const consumers = async () => (await log.nats.jsm.streams.info(STREAM.runs)).state.consumer_count
  await eventually('one consumer', async () => (await consumers()) === 1)
  await writeRange(log.nats, 's2', 2, 4)
  for (const client of clients) {
    await client.untilEvents(3)
    expect(told(client)).toEqual(['s2 2', 's2 3', 's2 4'])
    await client.close()
  }
  await eventually('no consumer is left', async () => (await consumers()) === 0)
})
