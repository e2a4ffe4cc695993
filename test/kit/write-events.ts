import { headers } from '@nats-io/nats-core'
import type { RunEvent } from '@baton/core/event'
import type { Checkpoint } from '@baton/core/records'
import { eventHeaders } from '@baton/store/codec'
import type { Nats } from '@baton/store/connect'
import { cursorSubject, runSubject } from '@baton/store/names'

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
    const ack = await nats.js.publish(runSubject(run), event.data, { headers: eventHeaders(event) })
    last = ack.seq
  }
  return last
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
  const ack = await nats.js.publish(cursorSubject(run), JSON.stringify(checkpoint), { headers: map })
  return ack.seq
}
