import { expect, test } from 'vitest'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient, type Received } from '../kit/sse-client.ts'
import { sequenceOf, writeTopics } from '../kit/topics.ts'

/** Repeatable: the same schedule of arrivals and departures every time, as far as the machine allows. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** The newest number that a client has of each topic, and where it stands; what it was told by a reset is forgotten. */
class Reader {
  readonly #newest = new Map<string, number>()
  #sequence = 0
  resets = 0

  check(frames: readonly Received[]): void {
    for (const frame of frames) {
      if (frame.data === null) continue
      const sequence = sequenceOf(frame)
      if (frame.event === 'stream.reset') {
        this.resets++
        this.#newest.clear()
      } else if (frame.event?.startsWith('stream.') === true) {
        expect(sequence).toBeGreaterThanOrEqual(this.#sequence)
      } else {
        expect(sequence).toBeGreaterThan(this.#sequence)
        const [topic = '', number = ''] = frame.data.split(' ')
        expect(frame.event).toBe(topic)
        const before = this.#newest.get(topic)
        const where = `${frame.id} on connection ${frame.connection} of ${JSON.stringify(frames[0])}`
        if (before !== undefined) expect(`${topic} ${number}`, where).toBe(`${topic} ${before + 1}`)
        this.#newest.set(topic, Number(number))
      }
      this.#sequence = sequence
    }
  }
}

test('I2: clients that come, go and come back to topics that forget quickly see no hole that is not told', async () => {
  await using log = await LogServer.start({ topicEvents: 60 })
  // Rings of the smallest kind, so that many are behind them, and feeds that hardly outlive their clients.
  const small = { ringsBytes: 1, lingerMs: 50, checkMs: 200 }
  await using one = await LocalEdge.start(log.server.url, small)
  await using other = await LocalEdge.start(log.server.url, small)
  const numbers = new Map<string, number>()
  const writing = { goesOn: true }
  const write = async (topic: string, count: number): Promise<void> => {
    const from = (numbers.get(topic) ?? 0) + 1
    numbers.set(topic, from + count - 1)
    await writeTopics(log.nats, topic, from, from + count - 1)
  }
  const writer = (async () => {
    for (let round = 0; writing.goesOn; round++) {
      await Promise.all([write('f.fast', 30), write('f.faster', 50), ...(round % 20 === 0 ? [write('f.rare', 1)] : [])])
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })()

  const sets = [['f.fast'], ['f.*'], ['f.fast', 'f.rare'], ['f.rare']]
  const tally = { visits: 0, resets: 0 }
  const come = async (seed: number): Promise<void> => {
    const next = random(seed)
    const set = sets[seed % sets.length] ?? []
    const query = set.map((topic) => `topic=${topic}`).join('&')
    let lastEventId: string | null = null
    let reader = new Reader()
    for (let visit = 0; visit < 12; visit++) {
      const stays = set[0] === 'f.rare' ? 2 : 1 + Math.floor(next() * 200)
      const { url } = next() < 0.5 ? one : other
      const from = lastEventId === null && next() < 0.5 ? '&from=start' : ''
      const client: SseClient = new SseClient({
        urls: [`${url}/topics/events?${query}${from}`],
        reconnects: false,
        ...(lastEventId === null ? {} : { lastEventId }),
      })
      // On a loaded machine almost all is gone by the time that it is read: a reset and one event, again and again.
      await client.until(`${stays} frames`, () => client.frames.length >= stays, 60_000)
      await client.close()
      reader.check(client.frames)
      tally.visits++
      lastEventId = next() < 0.2 ? null : client.lastEventId
      if (lastEventId === null) {
        tally.resets += reader.resets
        reader = new Reader()
      }
      if (next() < 0.3) await new Promise((resolve) => setTimeout(resolve, next() * 150))
    }
    tally.resets += reader.resets
  }
  try {
    await Promise.all(Array.from({ length: 8 }, (_, seed) => come(seed + 1)))
  } finally {
    writing.goesOn = false
    await writer
  }
  expect(tally.visits).toBe(96)
  expect(tally.resets).toBeGreaterThan(3)
}, 240_000)
