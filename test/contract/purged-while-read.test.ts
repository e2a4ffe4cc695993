import { expect, test } from 'vitest'
import { runSubject, STREAM } from '@baton/store/names'
import { first, followRun, indexes, json, range } from '../kit/follow.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient, type Received } from '../kit/sse-client.ts'
import { wantRun } from '../kit/want-run.ts'
import { endEvent, runEvent, writeEvents } from '../kit/write-events.ts'

test.each([
  ['that never held its last events', false],
  ['that holds its last events', true],
])(
  'I2: a run that has ended, and is purged while it is read at an edge %s: what is gone is told of, and the end',
  async (_, held) => {
    await using log = await LogServer.start()
    await using at = await LocalEdge.start(log.server.url, {
      lingerMs: 60_000,
      ringsBytes: 1,
      clientBufferBytes: 65_536,
    })
    const run = `purged-while-read-${held}`
    await wantRun(log.nats, run)
    await using live = held ? followRun(at, run) : null
    if (live !== null) await first(live)
    // More than all sockets on the way hold together.
    const data = 'x'.repeat(30_000)
    const events = (from: number, to: number) => range(from, to).map((index) => runEvent(index, { data }))
    for (let from = 1; from < 800; from += 20) await writeEvents(log.nats, run, events(from, from + 19))
    const end = await writeEvents(log.nats, run, [endEvent(801)])
    await live?.done
    const slow = { urls: [`${at.url}/runs/${run}/events`], stall: { everyFrames: 20, ms: 400 } }
    await using client = new SseClient({ ...slow, reconnects: false })
    await client.untilEvents(10)
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: runSubject(run) })
    await client.done
    const resets = client.frames.filter(({ event }) => event === 'stream.reset')
    expect(resets).toHaveLength(1)
    const [reset] = resets
    const after = Number(reset?.id?.split('-')[1])
    const seen = indexes(client)
    const before = seen.findIndex((index) => index > after)
    expect(seen.slice(0, before)).toEqual(range(1, before))
    expect(seen.slice(before)).toEqual(range(after + 1, 801))
    expect(json(reset as Received)).toMatchObject({ reason: 'trimmed', missed: after - before })
    expect(seen.length - before > 1).toBe(held)
    expect(client.frames.at(-1)).toMatchObject({ event: 'stream.end', id: `${end}-801` })
  },
  60_000,
)
