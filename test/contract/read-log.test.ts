import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BatonError } from '@baton/core/errors'
import type { StoredEvent } from '@baton/core/event'
import { followLive } from '@baton/store/live'
import { runSubject, STREAM } from '@baton/store/names'
import { findBefore, judgePosition, readExtent, readHead, readNext } from '@baton/store/read-log'
import { replayRun } from '@baton/store/replay'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { runEvent, writeCursor, writeEvents, writeRange } from '../kit/write-events.ts'

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start({ runEvents: 500 })
})
afterAll(() => log[Symbol.asyncDispose]())

const signal = AbortSignal.timeout(60_000)
const consumers = async () => (await log.nats.jsm.streams.info(STREAM.runs)).state.consumer_count

async function replayed(run: string, after: number): Promise<StoredEvent[]> {
  const found: StoredEvent[] = []
  for await (const page of replayRun(log.nats, run, after, signal)) found.push(...page)
  return found
}

describe('the extent of a run', () => {
  test('is empty for a run without events', async () => {
    expect(await readExtent(log.nats, 'nothing', 'any')).toEqual({ first: null, head: null, checkpoint: null })
    expect(await readExtent(log.nats, 'nothing', 'leader')).toEqual({ first: null, head: null, checkpoint: null })
  })

  test('has the oldest, the newest and the checkpoint, from any replica and from the leader', async () => {
    const last = await writeRange(log.nats, 'extent', 1, 3)
    await writeCursor(log.nats, 'extent', { index: 3, sequence: last, jobs: {} })
    await log.nats.js.publish(runSubject('extent'), 'published by hand')
    for (const asked of ['any', 'leader'] as const) {
      const found = await readExtent(log.nats, 'extent', asked)
      expect(found.first?.index).toBe(1)
      expect(found.head?.index).toBe(3)
      expect(found.checkpoint).toMatchObject({ sequence: last, index: 3 })
    }
    expect(
      await readNext(log.nats, 'extent', (await readHead(log.nats, 'extent', 'any'))?.sequence ?? 0, 'any'),
    ).toBeNull()
  })
})

describe('a position', () => {
  test('is judged by what is kept after it', async () => {
    const run = 'judged'
    const last = await writeRange(log.nats, run, 1, 20)
    const judge = (sequence: number, mark: number) => judgePosition(log.nats, run, { sequence, mark }, signal)
    expect(await judge(last, 20)).toEqual({ valid: true })
    expect(await judge(last - 5, 15)).toEqual({ valid: true })
    expect(await judge(last - 5, 3)).toEqual({ valid: false, reason: 'unknown-id', missed: null })
    expect(await judge(last + 1000, 500)).toEqual({ valid: false, reason: 'recreated', missed: null })
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject(run), keep: 4 })
    expect(await judge(last - 10, 10)).toEqual({ valid: false, reason: 'trimmed', missed: 6 })
    expect(await judge(last - 4, 16)).toEqual({ valid: true })
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject(run) })
    expect(await judge(last, 20)).toEqual({ valid: false, reason: 'trimmed', missed: null })
    await writeCursor(log.nats, run, { index: 20, sequence: last, jobs: {} })
    expect(await judge(last, 20)).toEqual({ valid: true })
  })

  test('that waits for a replica which is behind ends with the reason of whoever no longer wants to know', async () => {
    await writeRange(log.nats, 'lagging', 1, 3)
    // The server says it of itself, with three replicas; what it would take for them to lag is not the point here.
    const streams = Object.assign(Object.create(log.nats.jsm.streams) as typeof log.nats.jsm.streams, {
      info: async (name: string) => {
        const info = await log.nats.jsm.streams.info(name)
        const replicas = [1, 2].map((n) => ({ name: `follower-${n}`, current: true, active: 1_000_000 }))
        return { ...info, config: { ...info.config, num_replicas: 3 }, cluster: { leader: 'leader', replicas } }
      },
    })
    const jsm = Object.assign(Object.create(log.nats.jsm) as typeof log.nats.jsm, { streams })
    const left = new AbortController()
    const judging = judgePosition({ ...log.nats, jsm }, 'lagging', { sequence: 9000, mark: 9 }, left.signal)
    const reason = new BatonError('unavailable', 'the client left')
    setImmediate(() => left.abort(reason))
    await expect(judging).rejects.toBe(reason)
  })

  test('before an index is found among the events of other runs', async () => {
    for (let round = 1; round <= 40; round++) {
      await writeRange(log.nats, 'found', round, round)
      if (round % 3 === 0) await writeRange(log.nats, 'between', round * 2, round * 2 + 3)
    }
    const { first, head } = await readExtent(log.nats, 'found', 'any')
    if (first === null || head === null) throw new Error('nothing was stored')
    for (let index = 1; index <= 40; index++) {
      const place = await findBefore(log.nats, 'found', index, first, head)
      expect(place?.index).toBe(index - 1)
      expect((await readNext(log.nats, 'found', place?.sequence ?? 0, 'any'))?.index).toBe(index)
    }
  })
})

describe('a replay', () => {
  test('gives everything after a sequence, in order, and leaves no consumer', async () => {
    await writeEvents(
      log.nats,
      'replayed',
      Array.from({ length: 450 }, (_, at) => runEvent(at + 1, { data: 'é'.repeat(at) })),
    )
    const all = await replayed('replayed', 0)
    expect(all.map((event) => event.index)).toEqual(Array.from({ length: 450 }, (_, at) => at + 1))
    expect(all[449]?.data).toBe('é'.repeat(449))
    const later = await replayed('replayed', all[399]?.sequence ?? 0)
    expect(later[0]?.index).toBe(401)
    expect(later).toHaveLength(50)
    expect(await replayed('replayed', all[449]?.sequence ?? 0)).toEqual([])
    await eventually('the consumers are gone', async () => (await consumers()) === 0)
  })

  test('starts at the oldest kept', async () => {
    await writeRange(log.nats, 'trimmed', 1, 30)
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject('trimmed'), keep: 5 })
    expect((await replayed('trimmed', 0)).map((event) => event.index)).toEqual([26, 27, 28, 29, 30])
  })

  test('passes pages whose messages do not fit together', async () => {
    const big = Array.from({ length: 12 }, (_, at) => runEvent(at + 1, { data: 'x'.repeat(600_000) }))
    await writeEvents(log.nats, 'big', big)
    expect((await replayed('big', 0)).map((event) => event.data.length)).toEqual(big.map(() => 600_000))
  })

  test('survives the loss of its consumer between two pages', async () => {
    await writeRange(log.nats, 'cut', 1, 300)
    const found: number[] = []
    for await (const page of replayRun(log.nats, 'cut', 0, signal)) {
      if (found.length === 0) {
        for await (const one of log.nats.jsm.consumers.list(STREAM.runs)) {
          await log.nats.jsm.consumers.delete(STREAM.runs, one.name)
        }
      }
      found.push(...page.map((event) => event.index))
    }
    expect(found).toEqual(Array.from({ length: 300 }, (_, at) => at + 1))
  })

  test('ends its consumer when the reader leaves or is told to stop', async () => {
    await writeRange(log.nats, 'left', 1, 250)
    for await (const page of replayRun(log.nats, 'left', 0, signal)) {
      expect(page.length).toBeGreaterThan(0)
      break
    }
    const stop = new AbortController()
    const stopped = (async () => {
      for await (const page of replayRun(log.nats, 'left', 0, stop.signal))
        if (page.length > 0) stop.abort(new Error('enough'))
    })()
    await expect(stopped).rejects.toThrow('enough')
    await eventually('the consumers are gone', async () => (await consumers()) === 0)
  })
})

test('live events carry their place in the log', async () => {
  const heard: StoredEvent[] = []
  const live = followLive(log.nats, 'live', (event) => heard.push(event))
  await live.ready
  const last = await writeRange(log.nats, 'live', 1, 50)
  await eventually('all are heard', () => heard.length === 50)
  expect(heard.map((event) => event.index)).toEqual(Array.from({ length: 50 }, (_, at) => at + 1))
  expect(heard.at(-1)?.sequence).toBe(last)
  live.close()
})
