import { connect } from 'node:net'
import { readFile } from 'node:fs/promises'
import { expect } from 'vitest'
import { expectPromises } from '../kit/judge.ts'
import { eventually } from '../kit/eventually.ts'
import { SseClient } from '../kit/sse-client.ts'
import { StrictSse } from '../kit/strict-sse.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 1, edges: 1 })

const EVENTS = 4000
const EVENT_BYTES = 8 * 1024
const READERS = 20

/** A client that opens a stream and then never reads, until it is told to. */
function neverReading(url: string) {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.pause()
  socket.on('error', () => undefined)
  socket.write(`GET ${pathname} HTTP/1.0\r\nHost: ${hostname}\r\nAccept: text/event-stream\r\n\r\n`)
  const received: Buffer[] = []
  return {
    socket,
    /** Reads whatever still comes, and answers the last whole frame's id. */
    async drain(): Promise<string | null> {
      socket.on('data', (chunk: Buffer) => received.push(chunk)).resume()
      await new Promise((resolve) => (socket.closed ? resolve(null) : socket.once('close', resolve)))
      const text = Buffer.concat(received)
      const body = text.subarray(text.indexOf('\r\n\r\n') + 4)
      // Cut in the middle of a frame: only whole ones count, as for any client.
      const whole = body.subarray(0, body.lastIndexOf('\n\n') + 2)
      return new StrictSse().push(whole).findLast((frame) => frame.id !== null)?.id ?? null
    },
  }
}

const residentBytes = async (pid: number): Promise<number> => {
  const found = /VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))
  return Number(found?.[1]) * 1024
}

test('I7 I8: readers that never read cost bounded memory, disturb nobody, are cut off, and come back whole', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { events: EVENTS, perSecond: 1000, dataBytes: EVENT_BYTES, ends: false })
  await system.register(run, { url: job.url })
  const [edge] = system.edges
  if (edge === undefined) throw new Error('this system has no edge')
  const client = system.follow(run)
  await client.untilEvents(1)
  const before = await residentBytes(edge.pid)
  const readers = Array.from({ length: READERS }, () => neverReading(system.edgeUrl(`/runs/${run}/events`)))

  const subscribers = async () => ((await system.show(run)) as unknown as { subscribers: number }).subscribers
  await eventually('all of them are served', async () => (await subscribers()) === READERS + 1)

  await client.untilEvents(EVENTS, 60_000)
  const openings = client.openings.length
  expect(openings, 'connections of the client that reads').toBe(1)
  // Queues without a bound would hold 20 × 32 MiB.
  expect((await residentBytes(edge.pid)) - before).toBeLessThan(250 * 2 ** 20)

  await eventually('the edge has cut them off', async () => (await subscribers()) === 1, { withinMs: 30_000 })
  const ids = await Promise.all(readers.map((reader) => reader.drain()))
  const lastEventId = ids[0] ?? null
  expect(lastEventId).not.toBeNull()
  await using back = new SseClient({ urls: [system.edgeUrl(`/runs/${run}/events`)], lastEventId: lastEventId ?? '' })
  const missing = EVENTS - Number(lastEventId?.split('-')[1])
  await back.untilEvents(missing, 60_000)
  expect(back.breach).toBeNull()
  expect(back.events.map((frame) => Number(frame.id?.split('-')[1]))).toEqual(
    Array.from({ length: missing }, (_, at) => EVENTS - missing + 1 + at),
  )
  await expectPromises(system, run, { jobs: [await job.emission()], clients: [client], over: false })
  await client.close()
})
