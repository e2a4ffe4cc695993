import { describe, expect, test, vi } from 'vitest'
import { STREAM } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { runScope } from '../../apps/edge/src/run-scope.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { indexOf, SseClient } from '../kit/sse-client.ts'
import { endEvent, runEvent, writeEvents, writeRange } from '../kit/write-events.ts'

/** The events of a run as JSON, page by page. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url))
})

async function ask(path: string, init: RequestInit = {}): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${edge.url}${path}`, init)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

describe('the history', () => {
  const indexes = (body: Record<string, unknown>): number[] =>
    (body['events'] as { index: number }[]).map(({ index }) => index)

  test('goes page by page to the end', async () => {
    await writeRange(log.nats, 'paged', 1, 250)
    await writeEvents(log.nats, 'paged', [endEvent(251)])
    const all: number[] = []
    let after = ''
    for (let pages = 0; pages < 10; pages++) {
      const { body } = await ask(`/runs/paged/history?limit=100${after === '' ? '' : `&after=${after}`}`)
      expect(body).toMatchObject({ reset: null, head: { index: 251 } })
      all.push(...indexes(body))
      after = String(body['next'])
      if (body['ended'] === true) break
    }
    expect(all).toEqual(Array.from({ length: 251 }, (_, at) => at + 1))
    expect((await ask(`/runs/paged/history?after=${after}`)).body).toMatchObject({
      events: [],
      ended: true,
      next: after,
    })
  })

  test('gives all there is in one page where that is asked for, and what one page holds where more is', async () => {
    await writeRange(log.nats, 'long', 1, 1200)
    for (const limit of [1200, 10_000, 999_999_999_999]) {
      const { status, body } = await ask(`/runs/long/history?limit=${limit}`)
      expect([limit, status, indexes(body).length]).toEqual([limit, 200, 1200])
    }
  })

  test('tells of a position that cannot be served', async () => {
    await writeRange(log.nats, 'told', 1, 3)
    const { body } = await ask('/runs/told/history?after=999999-50')
    expect(body['reset']).toMatchObject({
      reason: 'recreated',
      requested: '999999-50',
      missed: null,
      state: '/runs/told',
    })
    expect(indexes(body)).toEqual([1, 2, 3])
    expect((await ask('/runs/told/history?after=garbage')).body['reset']).toMatchObject({ reason: 'unknown-id' })
  })

  test('waits for something new', async () => {
    const last = await writeRange(log.nats, 'waited', 1, 2)
    const waiting = ask(`/runs/waited/history?after=${last}-2&wait=20`)
    await eventually('it waits', () => edge.edge.polls === 1)
    await writeRange(log.nats, 'waited', 3, 3)
    const { body } = await waiting
    expect(indexes(body)).toEqual([3])
    expect(edge.edge.polls).toBe(0)
    expect(indexes((await ask(`/runs/waited/history?after=${String(body['next'])}&wait=1`)).body)).toEqual([])
  })

  test('that gets no turn at the log in time is a 503; whose client left before is no failure', async () => {
    const last = await writeRange(log.nats, 'turnless', 1, 3)
    const path = `/runs/turnless/history?after=${last - 2}-1`
    const over = new AbortController()
    const turns = await Promise.all(Array.from({ length: 64 }, () => edge.edge.slots.take(over.signal)))
    const failures = vi.spyOn(edge.edge.log, 'error')
    const leaving = new AbortController()
    const left = ask(path, { signal: leaving.signal }).catch(() => 'left')
    await eventually('it waits for a turn', () => edge.edge.slots.waiting === 1)
    leaving.abort()
    expect(await left).toBe('left')
    await eventually('it waits no more', () => edge.edge.slots.waiting === 0)
    const late = await ask(path)
    expect(late).toMatchObject({ status: 503, body: { code: 'unavailable' } })
    expect(failures).not.toHaveBeenCalled()
    for (const giveBack of turns) giveBack()
    expect(indexes((await ask(path)).body)).toEqual([2, 3])
  })

  test('goes on after each hole in the log, told by a reset', async () => {
    const last = await writeRange(log.nats, 'holes', 1, 10)
    for (const index of [6, 8, 9]) await log.nats.jsm.streams.deleteMessage(STREAM.runs, last - 10 + index)
    // Somebody publishes by hand; the owner goes on where it stood.
    await writeEvents(log.nats, 'holes', [runEvent(99)])
    await writeRange(log.nats, 'holes', 11, 12)
    await writeEvents(log.nats, 'holes', [endEvent(13)])
    const all: number[] = []
    const resets: unknown[] = []
    let after = ''
    for (let pages = 0; pages < 20; pages++) {
      const { body } = await ask(`/runs/holes/history?limit=3&after=${after}`)
      all.push(...indexes(body))
      if (body['reset'] !== null) resets.push(body['reset'])
      after = String(body['next'])
      if (body['ended'] === true) break
    }
    expect(all).toEqual([1, 2, 3, 4, 5, 7, 10, 99, 11, 12, 13])
    const state = '/runs/holes'
    const at = (index: number, sequence = last - 10 + index) => `${sequence}-${index}`
    expect(resets).toEqual([
      { reason: 'trimmed', requested: at(5), resumesAt: at(6), missed: 1, state },
      { reason: 'trimmed', requested: at(7), resumesAt: at(9), missed: 2, state },
      { reason: 'trimmed', requested: at(10), resumesAt: at(98, last), missed: 88, state },
      { reason: 'unknown-id', requested: at(99, last + 1), resumesAt: at(10, last + 1), missed: null, state },
    ])
  })

  test('takes a reset that the clients got live for the hole it tells of', async () => {
    await using own = await LogServer.start()
    await using at = await LocalEdge.start(own.server.url, { checkMs: 100 })
    const last = await writeRange(own.nats, 'told-live', 1, 5)
    const hold = await at.edge.store.feeds.hold(runScope(at.edge.store.nats, 'told-live'))
    await own.silence()
    const lost = await writeRange(own.nats, 'told-live', 6, 6)
    await own.nats.jsm.streams.deleteMessage(STREAM.runs, lost)
    await writeRange(own.nats, 'told-live', 7, 7)
    await eventually('the feed has what follows the hole', () => hold.feed.last.mark === 7)
    const reset = { reason: 'trimmed', requested: `${last}-5`, resumesAt: `${lost}-6`, missed: 1 }
    const response = await fetch(`${at.url}/runs/told-live/history?after=${last}-5&wait=5`)
    const body = (await response.json()) as Record<string, unknown>
    expect(indexes(body)).toEqual([7])
    expect(body['reset']).toMatchObject(reset)
    await using back = new SseClient({ urls: [`${at.url}/runs/told-live/events`], lastEventId: `${last}-5` })
    await back.untilEvents(1)
    expect(back.frames[0]?.event).toBe('stream.reset')
    expect(JSON.parse(back.frames[0]?.data ?? '')).toMatchObject(reset)
    expect(back.events.map(indexOf)).toEqual([7])
    hold.release()
  })

  test('of an unknown run is not found', async () => {
    expect((await ask('/runs/unheard/history')).status).toBe(404)
  })
})
