import { expect, test } from 'vitest'
import { STREAM } from '@baton/store/names'
import { desiredTopology } from '@baton/store/topology'
import { eventually } from '../kit/eventually.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer, SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { Proxy } from '../kit/proxy.ts'
import { SseClient } from '../kit/sse-client.ts'
import { writeTopics } from '../kit/topics.ts'

const ROUNDS = 12

test.each([
  ['one topic', ['anew']],
  ['a set', ['anew', 'nobody.>']],
])(
  'I2: %s: in a stream made anew nothing is handed on before the reset, however fast it grows past',
  async (_name, topics) => {
    await using log = await LogServer.start()
    const desired = desiredTopology(SMALL_TOPOLOGY).find((one) => one.name === STREAM.topics)
    // Answers take their time, as they do where NATS is not on the same machine: what is being settled stays so for a while.
    await using way = await Proxy.start(log.server)
    way.delayMs = 5
    await using edge = await LocalEdge.start(`nats://127.0.0.1:${way.port}`, { checkMs: 100 })
    const query = topics.map((topic) => `topic=${topic}`).join('&')
    await using client = new SseClient({ urls: [`${edge.url}/topics/events?${query}`], reconnects: false })
    await client.until('a first frame', () => true)
    for (let round = 1; round <= ROUNDS; round++) {
      const from = round * 1000
      await writeTopics(log.nats, 'anew', from + 1, from + 10)
      await client.until('the last of the old', ({ data }) => data === `anew ${from + 10}`)
      const before = client.frames.length
      await log.nats.jsm.streams.delete(STREAM.topics)
      await log.nats.jsm.streams.add({ ...desired, name: STREAM.topics })
      for (let at = 101; at <= 900; at += 20) await writeTopics(log.nats, 'anew', from + at, from + at + 19)
      let newest = from + 900
      await eventually('it is given what comes', async () => {
        await writeTopics(log.nats, 'anew', newest + 1, newest + 1)
        newest++
        return client.frames.some(({ data }) => data === `anew ${newest - 1}`)
      })
      await client.until('the last', ({ data }) => data === `anew ${newest}`)
      const since = client.frames.slice(before).filter(({ event }) => event === 'anew' || event === 'stream.reset')
      const [reset, ...events] = since
      expect(reset, `round ${round}`).toMatchObject({ event: 'stream.reset' })
      expect(JSON.parse(reset?.data ?? '')).toMatchObject({ reason: 'recreated', missed: null })
      const numbers = events.map(({ data }) => Number(data?.split(' ')[1]))
      expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, at) => newest + 1 - numbers.length + at))
    }
  },
  60_000,
)
