import { expect, test } from 'vitest'
import { STREAM, runSubject } from '@baton/store/names'
import { readNextOf } from '@baton/store/timed-log'
import type { TimedEvent } from '@baton/core/timed'
import { RunIndexes } from '../../apps/edge/src/run-indexes.ts'
import { followRuns } from '../kit/follow.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { wantRun } from '../kit/want-run.ts'
import { writeRange } from '../kit/write-events.ts'

/** I2 for several runs on one connection: what one node of NATS delivers is held against the index of each run. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url, { checkMs: 200, lingerMs: 50 }))
})

const partOf = (...runs: string[]) => ({ stream: STREAM.runs, subjects: runs.map((run) => runSubject(run)) })

/** All events of these runs, as they are stored. */
async function read(...runs: string[]): Promise<TimedEvent[]> {
  const events: TimedEvent[] = []
  for (let after = 0; ;) {
    const next = await readNextOf(log.nats, partOf(...runs), after)
    if (next === null) return events
    events.push(next)
    after = next.sequence
  }
}

const before = ({ sequence, atMs }: TimedEvent) => ({ sequence, mark: atMs })

/** Two runs, one event of each in turn. */
async function write(name: string): Promise<[string, string]> {
  const runs: [string, string] = [`${name}-1`, `${name}-2`]
  for (let at = 1; at <= 4; at++) for (const run of runs) await writeRange(log.nats, run, at, at)
  return runs
}

test('what is consecutive in each run passes as it is, from the start and from a position', async () => {
  const runs = await write('whole')
  const events = await read(...runs)
  expect(await new RunIndexes(log.nats, partOf(...runs)).follow(null, events)).toEqual(events)
  const from = events[2] as TimedEvent
  const indexes = new RunIndexes(log.nats, partOf(...runs))
  expect(await indexes.follow(before(from), events.slice(3, 5))).toEqual(events.slice(3, 5))
  expect(await indexes.follow(before(events[4] as TimedEvent), events.slice(5))).toEqual(events.slice(5))
})

test('I2: an event that the log has, and whoever delivered had not, is not passed over, wherever it is missing', async () => {
  const runs = await write('holed')
  const events = await read(...runs)
  const follow = (after: TimedEvent | null, some: readonly TimedEvent[]) =>
    new RunIndexes(log.nats, partOf(...runs)).follow(after === null ? null : before(after), some)
  const missing = /something is missing after index \d that the log has/
  await expect(follow(null, events.toSpliced(3, 1))).rejects.toThrow(missing)
  // Right behind the position that a client comes back with, too.
  await expect(follow(events[2] as TimedEvent, events.slice(4))).rejects.toThrow(missing)
})

test('I2: an event that somebody has taken out for good is a loss in front of the next one of its run', async () => {
  const runs = await write('purged')
  const events = await read(...runs)
  const gone = events[4] as TimedEvent
  await log.nats.jsm.streams.deleteMessage(STREAM.runs, gone.sequence)
  const followed = await new RunIndexes(log.nats, partOf(...runs)).follow(null, events.toSpliced(4, 1))
  const behind = events[6] as TimedEvent
  expect(followed.filter(({ loss }) => loss !== null)).toEqual([{ ...behind, loss: { until: behind.sequence - 1 } }])

  for (const run of runs) await wantRun(log.nats, run)
  await using client = followRuns(edge, runs, { lastEventId: `${events[3]?.sequence}-${events[3]?.atMs}` })
  await client.untilEvents(3)
  expect(client.frames.filter(({ event }) => event === 'stream.reset')).toHaveLength(1)
})
