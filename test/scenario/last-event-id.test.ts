import { describe, expect } from 'vitest'
import { STREAM, runSubject } from '@baton/store/names'
import { parsePosition } from '@baton/core/position'
import { eventually } from '../kit/eventually.ts'
import { indexOf, type Received } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

/** The log keeps 100 events of each run; the run of these tests has emitted 250 and goes on in silence. */
const KEPT = 100
const EMITTED = 250
const OLDEST = EMITTED - KEPT + 1
const RUN = 'followed'

type Ids = ReadonlyMap<number, string>

const test = testWithSystem({ relays: 1, edges: 1, environment: { BATON_RUN_EVENTS: String(KEPT) } }).extend<{
  ids: Ids
}>({
  ids: [
    async ({ whole }, use) => {
      const ids = await emit(whole, RUN)
      // A new edge has nothing in memory, where more may be kept than in the log.
      await whole.edges[0]?.restart()
      await use(ids)
    },
    { scope: 'file' },
  ],
})

/** Has a run emit its events, and answers the id of each, as a client that followed from the start was given it. */
async function emit(system: System, run: string): Promise<Ids> {
  const job = system.agents.job(run, { events: EMITTED, perSecond: 500, ends: false })
  await system.register(run, { url: job.url })
  await using client = system.follow(run)
  await client.untilEvents(EMITTED)
  return new Map(client.events.map((frame) => [indexOf(frame), frame.id ?? '']))
}

/** What an edge answers: its first frame, that frame's data, and the indexes of all events up to the newest. */
async function follow(system: System, run: string, lastEventId: string | null, query = '') {
  await using client = system.follow(run, {
    query,
    reconnects: false,
    ...(lastEventId === null ? {} : { lastEventId }),
  })
  const first = await client.until('its first frame', ({ data }) => data !== null)
  await eventually('all events up to the newest have come', async () => {
    if (client.breach !== null) throw client.breach
    const { head } = await system.show(run)
    const reached =
      client.events.length > 0 ? indexOf(client.events.at(-1) as Received) : parsePosition(first.id ?? '')?.mark
    return (reached ?? 0) >= (head?.index ?? 0)
  })
  const data = JSON.parse(first.data ?? '') as Readonly<Record<string, unknown>>
  return { first, data, indexes: client.events.map(indexOf) }
}

const indexesFrom = (first: number): number[] => Array.from({ length: EMITTED - first + 1 }, (_, at) => first + at)

describe('I2: a client of a run whose log is cut at 100 events', () => {
  test('without an id starts at the oldest kept and is told how many are gone', async ({ system, ids }) => {
    const { first, data, indexes } = await follow(system, RUN, null)
    expect(first.event).toBe('stream.open')
    expect(data).toMatchObject({ missed: OLDEST - 1, position: first.id })
    expect(data['head']).toEqual(headOf(ids))
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })

  test('with a blank id counts as one without', async ({ system, ids }) => {
    expect(ids.size).toBe(EMITTED)
    const { first, indexes } = await follow(system, RUN, ' ')
    expect(first.event).toBe('stream.open')
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })

  test('with the id of a kept event goes on after it, out of the log', async ({ system, ids }) => {
    const { first, data, indexes } = await follow(system, RUN, ids.get(OLDEST + 10) ?? '')
    expect(first).toMatchObject({ event: 'stream.open', id: ids.get(OLDEST + 10) })
    expect(data).toMatchObject({ missed: 0 })
    expect(indexes).toEqual(indexesFrom(OLDEST + 11))
  })

  test('with an id that is still in memory goes on after it, whatever the log has trimmed', async ({ system, run }) => {
    const ids = await emit(system, run)
    for (const index of [240, 10]) {
      const { first, indexes } = await follow(system, run, ids.get(index) ?? '')
      expect(first).toMatchObject({ event: 'stream.open', id: ids.get(index) })
      expect(indexes).toEqual(indexesFrom(index + 1))
    }
  })

  test('with the id of the newest event waits for the next', async ({ system, ids }) => {
    const { first, indexes } = await follow(system, RUN, ids.get(EMITTED) ?? '')
    expect(first).toMatchObject({ event: 'stream.open', id: ids.get(EMITTED) })
    expect(indexes).toEqual([])
  })

  test('with the id of a trimmed event is reset, and told exactly how many are missing', async ({ system, ids }) => {
    const { first, data, indexes } = await follow(system, RUN, ids.get(10) ?? '')
    expect(first.event).toBe('stream.reset')
    expect(data).toMatchObject({ reason: 'trimmed', requested: ids.get(10), missed: OLDEST - 11, resumesAt: first.id })
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })

  test('with an id beyond the log is reset as after a stream made anew', async ({ system, ids }) => {
    const { first, data, indexes } = await follow(system, RUN, `${sequenceOf(ids, EMITTED) + 100_000}-260`)
    expect(first.event).toBe('stream.reset')
    expect(data).toMatchObject({ reason: 'recreated', missed: null })
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })

  test('with the id of another run is reset', async ({ system, ids, run }) => {
    expect(ids.size).toBe(EMITTED)
    const others = await emit(system, run)
    const { first, data, indexes } = await follow(system, RUN, others.get(120) ?? '')
    expect(first.event).toBe('stream.reset')
    expect(data).toMatchObject({ reason: 'unknown-id', requested: others.get(120), missed: null })
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })

  test.for([
    ['garbage', 'not an id'],
    ['an id with a sign', '-5-3'],
    ['15 kB', 'x'.repeat(15_000)],
  ] as const)('with %s is reset, and what was asked is cut at 128 bytes', async ([, id], { system, ids }) => {
    expect(ids.size).toBe(EMITTED)
    const { first, data, indexes } = await follow(system, RUN, id)
    expect(first.event).toBe('stream.reset')
    expect(data).toMatchObject({ reason: 'unknown-id', requested: id.slice(0, 128), missed: null })
    expect(indexes).toEqual(indexesFrom(OLDEST))
  })
})

test('I2: a run without events opens at a position of its own and can be returned to with it', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { events: 0, perSecond: 1, ends: false })
  await system.register(run, { url: job.url })
  const opened = await follow(system, run, null)
  expect(opened.first).toMatchObject({ event: 'stream.open', id: expect.stringMatching(/^\d+-0$/) as string })
  const again = await follow(system, run, opened.first.id)
  expect(again.first).toMatchObject({ event: 'stream.open', id: opened.first.id })
})

test('I2: a purged run is one reset, and goes on with the next index', async ({ system, run }) => {
  const ids = await emit(system, run)
  await system.store.jsm.streams.purge(STREAM.runs, { filter: runSubject(run) })
  await system.edges[0]?.restart()
  const { first, data, indexes } = await follow(system, run, ids.get(200) ?? '')
  expect(first.event).toBe('stream.reset')
  expect(data).toMatchObject({ reason: 'trimmed', missed: null })
  expect(indexes).toEqual([])
})

test('I2: an ended run: with an id it gets the rest and the end, with the end’s id 204', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 20, perSecond: 200 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.done
  expect(client.breach).toBeNull()
  const end = client.frames.at(-1)
  expect(end?.event).toBe('stream.end')
  expect(client.openings.at(-1)?.status).toBe(204)
  const some = client.events[9]
  const { indexes } = await follow(system, run, some?.id ?? '')
  expect(indexes[0]).toBe(11)
  expect(indexes.at(-1)).toBe(indexOf(end as Received))
  const first = await follow(system, run, null)
  expect(first.indexes.at(-1)).toBe(indexOf(end as Received))
})

test('I2: a stream made anew that has grown past an old id is one reset', async ({ system, run }) => {
  const old = await emit(system, `${run}-old`)
  const [relay] = system.relays
  await relay?.child.kill()
  await system.store.jsm.streams.delete(STREAM.runs)
  await relay?.restart()
  await system.edges[0]?.restart()
  await emit(system, `${run}-new`)
  await eventually(
    'the new stream has grown past the old id',
    async () => {
      const { state } = await system.store.jsm.streams.info(STREAM.runs)
      if (state.last_seq > sequenceOf(old, 200)) return true
      await emit(system, `${run}-more-${state.last_seq}`)
      return false
    },
    { withinMs: 60_000 },
  )
  const { first, data } = await follow(system, `${run}-old`, old.get(200) ?? '')
  expect(first.event).toBe('stream.reset')
  expect(data).toMatchObject({
    missed: expect.toSatisfy((missed) => missed === null || typeof missed === 'number') as unknown,
  })
  expect(['recreated', 'unknown-id', 'trimmed']).toContain(data['reason'])
})

const sequenceOf = (ids: Ids, index: number): number => parsePosition(ids.get(index) ?? '')?.sequence ?? 0
const headOf = (ids: Ids) => ({ sequence: sequenceOf(ids, EMITTED), index: EMITTED })
