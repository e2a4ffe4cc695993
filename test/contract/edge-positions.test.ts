import { beforeAll, describe, expect, test } from 'vitest'
import { writeStatus } from '@baton/store/registry'
import { cursorSubject, runSubject, STREAM } from '@baton/store/names'
import { desiredTopology } from '@baton/store/topology'
import { eventually } from '../kit/eventually.ts'
import { first, followRun, indexes, json, range, type FollowOptions } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import type { Received, SseClient } from '../kit/sse-client.ts'
import { wantRun } from '../kit/want-run.ts'
import { endEvent, runEvent, writeCursor, writeEvents, writeRange } from '../kit/write-events.ts'

/**
 * What a client is told about every position it may come with: the verdict comes before the first event, and no state
 * of the log makes a hole that it is not told of.
 */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url))
})

const follow = (run: string, { at = edge, ...rest }: FollowOptions & { at?: LocalEdge } = {}): SseClient =>
  followRun(at, run, rest)

describe('without an id', () => {
  test('the stream opens at the oldest kept and gives everything', async () => {
    const last = await writeRange(log.nats, 'none', 1, 6)
    await using client = follow('none')
    await client.untilEvents(6)
    const open = await first(client)
    expect(open).toMatchObject({ event: 'stream.open', id: `${last - 6}-0` })
    expect(open.retryMs).toBeGreaterThanOrEqual(250)
    expect(open.comments).toEqual(['baton'])
    expect(json(open)).toEqual({
      position: open.id,
      first: { sequence: last - 5, index: 1 },
      head: { sequence: last, index: 6 },
      missed: 0,
    })
    expect(indexes(client)).toEqual(range(1, 6))
    await writeRange(log.nats, 'none', 7, 9)
    await client.untilEvents(9)
    expect(indexes(client)).toEqual(range(1, 9))
  })

  test('a blank id is none', async () => {
    await writeRange(log.nats, 'blank', 1, 2)
    await using client = follow('blank', { lastEventId: '  ' })
    await client.untilEvents(2)
    expect((await first(client)).event).toBe('stream.open')
  })

  test('events trimmed before the open are counted', async () => {
    const last = await writeRange(log.nats, 'gone-before', 1, 20)
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('gone-before'), keep: 5 })
    await using client = follow('gone-before')
    await client.untilEvents(5)
    expect(json(await first(client))).toMatchObject({ position: `${last - 5}-15`, missed: 15 })
    expect(indexes(client)).toEqual(range(16, 20))
    // Who names an index asks for nothing before it; where it is gone the position says so.
    await using named = follow('gone-before', { query: '?from=3' })
    await named.untilEvents(5)
    expect(json(await first(named))).toMatchObject({ position: `${last - 5}-15`, missed: 0 })
  })

  test('from now, from an index, and from the last so many', async () => {
    await writeRange(log.nats, 'from', 1, 10)
    const starts = async (query: string, count: number): Promise<number[]> => {
      await using client = follow('from', { query })
      await client.untilEvents(count)
      return indexes(client)
    }
    expect(await starts('?from=4', 7)).toEqual(range(4, 10))
    expect(await starts('?from=-3', 3)).toEqual([8, 9, 10])
    expect(await starts('?from=-300', 10)).toEqual(range(1, 10))
    await using now = follow('from', { query: '?from=now' })
    expect((await first(now)).id?.split('-')[1]).toBe('10')
    await using later = follow('from', { query: '?from=500' })
    await first(later)
    await writeRange(log.nats, 'from', 11, 12)
    await now.untilEvents(2)
    expect(indexes(now)).toEqual([11, 12])
    await later.untilEvents(2)
    expect(indexes(later)).toEqual([11, 12])
  })
})

describe('with the id of an event', () => {
  test('in the ring: what follows, without a question to NATS', async () => {
    await writeRange(log.nats, 'ringed', 1, 3)
    await using one = follow('ringed')
    await one.untilEvents(3)
    await writeRange(log.nats, 'ringed', 4, 8)
    await one.untilEvents(8)
    const before = log.nats.nc.stats().outMsgs
    const asked = edge.natsSent
    await using back = follow('ringed', { lastEventId: one.events[4]?.id ?? '' })
    await back.untilEvents(3)
    expect(indexes(back)).toEqual([6, 7, 8])
    expect((await first(back)).id).toBe(one.events[4]?.id)
    expect(edge.natsSent - asked).toBeLessThanOrEqual(1)
    expect(log.nats.nc.stats().outMsgs).toBe(before)
  })

  test('behind the ring: a replay, then live, strictly consecutive', async () => {
    await writeRange(log.nats, 'behind', 1, 700)
    await using all = follow('behind')
    await all.untilEvents(700)
    await using back = follow('behind', { lastEventId: all.events[99]?.id ?? '' })
    await writeRange(log.nats, 'behind', 701, 720)
    await back.untilEvents(620)
    await all.untilEvents(720)
    expect(indexes(back)).toEqual(range(101, 720))
    expect(indexes(all)).toEqual(range(1, 720))
  })

  test('in the query, for a page that makes a new EventSource; the header comes first', async () => {
    const last = await writeRange(log.nats, 'query', 1, 5)
    await using client = follow('query', { query: `?lastEventId=${last - 3}-2` })
    await client.untilEvents(3)
    expect(indexes(client)).toEqual([3, 4, 5])
    await using both = follow('query', { query: `?lastEventId=${last - 3}-2`, lastEventId: `${last - 1}-4` })
    await both.untilEvents(1)
    expect(indexes(both)).toEqual([5])
  })

  test('trimmed: one reset with how many are missing, then from the oldest', async () => {
    const last = await writeRange(log.nats, 'trimmed', 1, 30)
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('trimmed'), keep: 5 })
    await using client = follow('trimmed', { lastEventId: `${last - 20}-10` })
    await client.untilEvents(5)
    const reset = await first(client)
    expect(reset).toMatchObject({ event: 'stream.reset', id: `${last - 5}-25` })
    expect(json(reset)).toEqual({
      reason: 'trimmed',
      requested: `${last - 20}-10`,
      resumesAt: `${last - 5}-25`,
      missed: 15,
      state: '/runs/trimmed',
    })
    expect(indexes(client)).toEqual(range(26, 30))
    expect(client.frames.filter((frame) => frame.event === 'stream.reset')).toHaveLength(1)
  })

  test('of the future: a reset, for the stream must have been made anew', async () => {
    await writeRange(log.nats, 'future', 1, 3)
    await using client = follow('future', { lastEventId: '900000-500' })
    await client.untilEvents(3)
    expect(json(await first(client))).toMatchObject({ reason: 'recreated', missed: null })
    expect(indexes(client)).toEqual([1, 2, 3])
  })

  test('of another run: a reset, not a hole', async () => {
    await writeRange(log.nats, 'other', 1, 40)
    const elsewhere = await writeRange(log.nats, 'mine', 1, 3)
    await writeRange(log.nats, 'other', 41, 60)
    await using client = follow('other', { lastEventId: `${elsewhere}-3` })
    await client.untilEvents(60)
    expect(json(await first(client))).toMatchObject({ reason: 'unknown-id', missed: null })
    expect(indexes(client)).toEqual(range(1, 60))
  })
})

describe('garbage', () => {
  test.each(['hello', '1-2-3', '-1', '0x1-2', '1e3-1', '９-1', `${'9'.repeat(17)}-1`])('%s: a reset', async (id) => {
    await wantRun(log.nats, 'garbage')
    await using client = follow('garbage', { query: `?lastEventId=${encodeURIComponent(id)}` })
    expect(json(await first(client))).toMatchObject({ reason: 'unknown-id', requested: id, missed: null })
  })

  test('of 15 kB: a reset that repeats only its beginning', async () => {
    await writeRange(log.nats, 'long', 1, 2)
    await using client = follow('long', { lastEventId: 'x'.repeat(15_000) })
    await client.untilEvents(2)
    expect(json(await first(client))['requested']).toBe('x'.repeat(128))
  })

  test('of characters that are longer than a byte: cut between two of them, in a stream and in the history', async () => {
    await writeRange(log.nats, 'wide', 1, 2)
    const id = `x${'é'.repeat(200)}`
    await using client = follow('wide', { query: `?lastEventId=${encodeURIComponent(id)}` })
    const cut = `x${'é'.repeat(63)}`
    expect(json(await first(client))['requested']).toBe(cut)
    const history = await fetch(`${edge.url}/runs/wide/history?after=${encodeURIComponent(id)}`)
    expect(await history.json()).toMatchObject({ reset: { reason: 'unknown-id', requested: cut } })
  })

  test('beyond what the server reads of headers: 431', async () => {
    const response = await fetch(`${edge.url}/runs/long/events`, { headers: { 'last-event-id': 'x'.repeat(20_000) } })
    expect(response.status).toBe(431)
  })
})

describe('a run of which nothing is kept', () => {
  test('without events: open at nothing, then live from the first', async () => {
    await wantRun(log.nats, 'quiet')
    await using client = follow('quiet')
    const open = await first(client)
    expect(open).toMatchObject({ event: 'stream.open', id: '0-0' })
    expect(json(open)).toEqual({ position: '0-0', first: null, head: null, missed: 0 })
    await using back = follow('quiet', { lastEventId: '0-0' })
    expect((await first(back)).event).toBe('stream.open')
    await writeRange(log.nats, 'quiet', 1, 2)
    for (const one of [client, back]) {
      await one.untilEvents(2)
      expect(indexes(one)).toEqual([1, 2])
    }
  })

  test('purged: a reset for whoever had some of it, and it goes on at its checkpoint', async () => {
    await wantRun(log.nats, 'purged')
    const last = await writeRange(log.nats, 'purged', 1, 10)
    await writeCursor(log.nats, 'purged', { index: 10, sequence: last, jobs: {} })
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('purged') })
    await using behind = follow('purged', { lastEventId: `${last - 6}-4` })
    const reset = await first(behind)
    expect(json(reset)).toMatchObject({ reason: 'trimmed', missed: null })
    expect(reset.id).toBe(`${last}-10`)
    await using whole = follow('purged', { lastEventId: `${last}-10` })
    expect((await first(whole)).event).toBe('stream.open')
    await writeRange(log.nats, 'purged', 11, 12)
    for (const one of [behind, whole]) {
      await one.untilEvents(2)
      expect(indexes(one)).toEqual([11, 12])
    }
  })

  test('ended, and purged while the edge follows it: whoever opens it then is told the end', async () => {
    await using slow = await LocalEdge.start(log.server.url, { lingerMs: 60_000 })
    await wantRun(log.nats, 'gone-since')
    const last = await writeRange(log.nats, 'gone-since', 1, 3)
    const end = await writeEvents(log.nats, 'gone-since', [endEvent(4)])
    await writeCursor(log.nats, 'gone-since', { index: 4, sequence: end, jobs: {} })
    await using before = follow('gone-since', { at: slow, lastEventId: `${end}-4` })
    await before.done
    const ways = [
      {},
      { query: '?from=now' },
      { query: '?from=2' },
      { lastEventId: '0-0' },
      { lastEventId: `${last}-3` },
      { lastEventId: 'x' },
    ]
    // First the events alone, then the checkpoint too.
    for (const subject of [runSubject('gone-since'), cursorSubject('gone-since')]) {
      await log.nats.jsm.streams.purge(STREAM.runs, { filter: subject })
      for (const way of ways) {
        await using client = follow('gone-since', { at: slow, ...way })
        await client.done
        // A ring may have what the log has no longer.
        expect(client.events.at(-1)).toMatchObject({ event: 'stream.end', data: '{"reason":"completed"}' })
        expect(client.lastEventId).toBe(`${end}-4`)
      }
      const history = (await (await fetch(`${slow.url}/runs/gone-since/history`)).json()) as { ended: boolean }
      expect(history.ended).toBe(true)
    }
    await using over = follow('gone-since', { at: slow, lastEventId: `${end}-4` })
    await over.done
    expect(over.openings[0]?.status).toBe(204)
  })

  test('ended, and purged while the edge holds its last events: these are given, and what is before them is told of', async () => {
    await using slow = await LocalEdge.start(log.server.url, { lingerMs: 60_000, ringsBytes: 1 })
    await wantRun(log.nats, 'held-since')
    await using live = follow('held-since', { at: slow })
    await first(live)
    // A ring of the smallest kind holds three of these.
    const data = 'x'.repeat(10_000)
    await writeEvents(
      log.nats,
      'held-since',
      range(1, 9).map((index) => runEvent(index, { data })),
    )
    const end = await writeEvents(log.nats, 'held-since', [endEvent(10)])
    await live.done
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('held-since') })
    for (const way of [{}, { query: '?from=2' }, { lastEventId: '0-0' }, { lastEventId: 'x' }]) {
      await using client = follow('held-since', { at: slow, ...way })
      await client.done
      const [oldest = 0] = indexes(client)
      expect(oldest).toBeGreaterThan(2)
      expect(indexes(client)).toEqual(range(oldest, 10))
      expect((await first(client)).id).toMatch(new RegExp(`-${oldest - 1}$`))
      expect(client.lastEventId).toBe(`${end}-10`)
    }
    await using whole = follow('held-since', { at: slow })
    expect(json(await first(whole))['missed']).toBeGreaterThan(1)
    await using reset = follow('held-since', { at: slow, lastEventId: '0-0' })
    expect(json(await first(reset))).toMatchObject({ reason: 'trimmed', requested: '0-0' })
  })

  test('ended and purged: the end is told from the status, and its id means over', async () => {
    const status = { relay: 'r', boot: 'b', epoch: 1, jobs: [], since: new Date().toISOString() }
    await writeStatus(log.nats, 'gone', { ...status, state: 'ended', end: { reason: 'failed', detail: 'why' } })
    await using client = follow('gone')
    await client.until('the end', (frame) => frame.event === 'stream.end')
    expect(json(client.events[0] as Received)).toEqual({ reason: 'failed', detail: 'why' })
    await client.done
    await using back = follow('gone', { lastEventId: client.lastEventId ?? '' })
    await back.done
    expect(back.openings[0]?.status).toBe(204)
  })
})

describe('a run that seems empty because nothing of it was heard', () => {
  const ended = { relay: 'r', boot: 'b', epoch: 1, jobs: [], since: new Date().toISOString(), state: 'ended' as const }

  test('is asked for at the leader before anybody is told its end from the status', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url, { checkMs: 600_000 })
    for (const run of ['deaf', 'deaf-id', 'deaf-history']) await wantRun(own.nats, run)
    const early = ['deaf', 'deaf-id', 'deaf-history'].map((run) => follow(run, { at }))
    for (const one of early) expect((await first(one)).id).toBe('0-0')
    await own.silence()
    for (const run of ['deaf', 'deaf-id', 'deaf-history']) {
      await writeRange(own.nats, run, 1, 3)
      await writeEvents(own.nats, run, [endEvent(4)])
      await writeStatus(own.nats, run, { ...ended, end: { reason: 'completed', detail: null } })
    }
    await using whole = follow('deaf', { at })
    await whole.done
    expect(indexes(whole)).toEqual([1, 2, 3, 4])
    await using back = follow('deaf-id', { at, lastEventId: '0-0' })
    await back.done
    expect(back.openings[0]?.status).toBe(200)
    expect(indexes(back)).toEqual([1, 2, 3, 4])
    const history = (await (await fetch(`${at.url}/runs/deaf-history/history?after=0-0`)).json()) as {
      events: { index: number }[]
      ended: boolean
    }
    expect(history.events.map(({ index }) => index)).toEqual([1, 2, 3, 4])
    expect(history.ended).toBe(true)
    for (const one of early) await one.close()
  })

  test('and is heard while its status is read: the events are served, and their own end', async () => {
    await using own = await LogServer.start()
    await using proxy = await Proxy.start(own.server)
    await using at = await LocalEdge.start(`nats://127.0.0.1:${proxy.port}`, { checkMs: 600_000 })
    await wantRun(own.nats, 'meanwhile')
    await using early = follow('meanwhile', { at })
    await first(early)
    const asking = proxy.holdUp()
    await using late = follow('meanwhile', { at })
    await eventually('it asks for the status', () => asking.waiting().includes('KV_status'))
    await writeRange(own.nats, 'meanwhile', 1, 3)
    await writeEvents(own.nats, 'meanwhile', [endEvent(4)])
    await writeStatus(own.nats, 'meanwhile', { ...ended, end: { reason: 'completed', detail: null } })
    await early.untilEvents(4)
    asking.flow()
    await late.done
    expect(indexes(late)).toEqual([1, 2, 3, 4])
  })
})

describe('a run that has ended', () => {
  beforeAll(async () => {
    await writeRange(log.nats, 'ended', 1, 4)
    await writeEvents(log.nats, 'ended', [endEvent(5)])
  })

  test.each(['', '?from=now', '?from=99', '?from=-1', '?from=2'])(
    'opened with %s gets its end, last',
    async (query) => {
      await using client = follow('ended', { query })
      await client.done
      expect(client.breach).toBeNull()
      expect(client.frames.at(-1)).toMatchObject({ event: 'stream.end', data: '{"reason":"completed"}' })
      expect(client.frames.filter((frame) => frame.event === 'stream.end')).toHaveLength(1)
    },
  )

  test('answers a return with the id of its end by 204, and one with the id before it by the end', async () => {
    await using whole = follow('ended')
    await whole.done
    await using over = follow('ended', { lastEventId: whole.lastEventId ?? '' })
    await over.done
    expect(over.openings[0]?.status).toBe(204)
    expect(over.frames).toEqual([])
    await using nearly = follow('ended', { lastEventId: whole.events[3]?.id ?? '' })
    await nearly.done
    expect(nearly.events.map((frame) => frame.event)).toEqual(['stream.end'])
  })

  test('ends a stream that was there live, and an EventSource then stops by itself', async () => {
    await writeRange(log.nats, 'ending', 1, 2)
    await using client = follow('ending', { reconnects: true })
    await client.untilEvents(2)
    await writeEvents(log.nats, 'ending', [runEvent(3), endEvent(4)])
    await client.done
    expect(indexes(client)).toEqual([1, 2, 3, 4])
    expect(client.openings.at(-1)?.status).toBe(204)
  })
})

describe('a stream made anew', () => {
  test('and grown past a client: a reset when it comes back, and one while it is there', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url, { checkMs: 200 })
    await writeRange(own.nats, 'other', 1, 5)
    const last = await writeRange(own.nats, 'anew', 1, 20)
    await using there = follow('anew', { at, reconnects: true })
    await there.untilEvents(20)
    await own.nats.jsm.streams.delete(STREAM.runs)
    const runs = desiredTopology(SMALL_TOPOLOGY).find((one) => one.name === STREAM.runs)
    await own.nats.jsm.streams.add({ ...runs, name: STREAM.runs })
    await writeRange(own.nats, 'anew', 1, 3)
    const reset = await there.until('a reset', (frame) => frame.event === 'stream.reset')
    expect(json(reset)).toMatchObject({ reason: 'recreated', requested: `${last}-20`, missed: null })
    await there.untilEvents(23)
    await writeRange(own.nats, 'anew', 4, 40)
    await there.untilEvents(60)
    expect(indexes(there)).toEqual([...range(1, 20), ...range(1, 40)])
    await using back = follow('anew', { at, lastEventId: `${last}-20` })
    await back.untilEvents(40)
    expect(json(await first(back))).toMatchObject({ reason: 'unknown-id', missed: null })
    expect(indexes(back)).toEqual(range(1, 40))
  })
})

test('everything of a live run ages out: the index goes on, and a client of long ago is told', async () => {
  await wantRun(log.nats, 'aged')
  const last = await writeRange(log.nats, 'aged', 1, 10)
  await writeCursor(log.nats, 'aged', { index: 10, sequence: last, jobs: {} })
  await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('aged') })
  await writeRange(log.nats, 'aged', 11, 13)
  await using caughtUp = follow('aged', { lastEventId: `${last}-10` })
  await caughtUp.untilEvents(3)
  expect((await first(caughtUp)).event).toBe('stream.open')
  await using late = follow('aged', { lastEventId: `${last - 8}-2` })
  await late.untilEvents(3)
  expect(json(await first(late))).toMatchObject({ reason: 'trimmed', missed: 8 })
  for (const one of [caughtUp, late]) expect(indexes(one)).toEqual([11, 12, 13])
})

test('a hole in what was heard live is filled from the log', async () => {
  await using own = await LogServer.start()
  await using at = await LocalEdge.start(own.server.url, { checkMs: 200 })
  await writeRange(own.nats, 'lossy', 1, 3)
  await using client = follow('lossy', { at })
  await client.untilEvents(3)
  // Without the republishing nothing is heard: the tail check must notice, and then a jump when it is back.
  const { config } = await own.nats.jsm.streams.info(STREAM.runs)
  const { republish, ...silent } = config
  await own.nats.jsm.streams.update(STREAM.runs, { ...silent, republish: { src: 'run.none', dest: 'live.run.none' } })
  await writeRange(own.nats, 'lossy', 4, 200)
  await client.untilEvents(200)
  await writeRange(own.nats, 'lossy', 201, 400)
  if (republish !== undefined) await own.nats.jsm.streams.update(STREAM.runs, { ...config, republish })
  await writeRange(own.nats, 'lossy', 401, 410)
  await client.untilEvents(410)
  expect(indexes(client)).toEqual(range(1, 410))
  await eventually('no consumer is left', async () => {
    return (await own.nats.jsm.streams.info(STREAM.runs)).state.consumer_count === 0
  })
})
