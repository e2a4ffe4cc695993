import { setTimeout as delay } from 'node:timers/promises'
import { headers, type MsgHdrs } from '@nats-io/nats-core'
import { isCode } from '@baton/core/errors'
import type { RunEvent } from '@baton/core/event'
import type { Checkpoint } from '@baton/core/records'
import { eventHeaders } from '@baton/store/codec'
import type { Nats } from '@baton/store/connect'
import { cursorSubject, runSubject } from '@baton/store/names'
import { publish } from '@baton/store/publish'

/** An event as a relay would store it; what a test cares about is given. */
export const runEvent = (index: number, over: Partial<RunEvent> = {}): RunEvent => ({
  index,
  epoch: 1,
  job: 'main',
  type: 'output',
  name: 'output',
  upstreamId: `u-${index}`,
  upstreamOffset: 0,
  ordinal: index,
  time: new Date().toISOString(),
  data: `event ${index}`,
  ...over,
})

export const endEvent = (index: number): RunEvent =>
  runEvent(index, {
    type: 'stream.end',
    name: null,
    job: null,
    upstreamId: null,
    upstreamOffset: null,
    ordinal: null,
    data: JSON.stringify({ reason: 'completed' }),
  })

/** Stores events of a run without a relay: no claim, no fence. Returns the sequence of the last. */
export async function writeEvents(nats: Nats, run: string, events: readonly RunEvent[]): Promise<number> {
  let last = 0
  for (const event of events) {
    last = await store(nats, runSubject(run), event.data, eventHeaders(event))
  }
  return last
}

/**
 * Stores a message and returns its sequence. A node of a cluster may not have heard yet that there is somebody for a
 * subject of a stream just made: then nothing was stored, and it is sent again.
 */
async function store(nats: Nats, subject: string, data: string, map: MsgHdrs): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    try {
      return (await publish(nats, subject, data, map)).sequence
    } catch (error) {
      if (!isCode(error, 'unavailable') || attempt >= 100) throw error
      await delay(50)
    }
  }
}

/** Events `from` to `to` of a run, both included. */
export const writeRange = (nats: Nats, run: string, from: number, to: number): Promise<number> =>
  writeEvents(
    nats,
    run,
    Array.from({ length: to - from + 1 }, (_, at) => runEvent(from + at)),
  )

export async function writeCursor(nats: Nats, run: string, checkpoint: Checkpoint): Promise<number> {
  const map = headers()
  map.set('Nats-TTL', 'never')
  return await store(nats, cursorSubject(run), JSON.stringify(checkpoint), map)
}
