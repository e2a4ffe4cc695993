import { expect, test } from 'vitest'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { SseClient } from '../kit/sse-client.ts'
import { sequenceOf, writeTopics } from '../kit/topics.ts'

test('I2: a topic that forgets more quickly than it is read tells so, and what it still has', async () => {
  await using log = await LogServer.start({ topicEvents: 2 })
  // Its ring holds the newest event and no other: a client is behind it at once, and reads the log.
  await using edge = await LocalEdge.start(log.server.url, { ringsBytes: 1 })
  const writing = { goesOn: true }
  const writer = (async () => {
    for (let from = 1; writing.goesOn; from += 100) await writeTopics(log.nats, 'quick', from, from + 99)
  })()
  await using client = new SseClient({ urls: [`${edge.url}/topics/events?topic=quick&topic=slow`], lastEventId: '1-1' })
  try {
    await client.untilEvents(20, 15_000)
  } finally {
    writing.goesOn = false
    await writer
  }
  const told = client.frames.filter(({ event, id }) => id !== null && event !== 'stream.open')
  const sequences = told.map(sequenceOf)
  expect(sequences).toEqual(sequences.toSorted((one, other) => one - other))
  // Between two events that do not follow each other there is the word that something is gone.
  for (const [at, frame] of told.entries()) {
    const before = told[at - 1]
    if (before === undefined || frame.event === 'stream.reset' || before.event === 'stream.reset') continue
    expect(Number(frame.data?.split(' ')[1])).toBe(Number(before.data?.split(' ')[1]) + 1)
  }
})
