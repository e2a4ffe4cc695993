import { describe, expect, test } from 'vitest'
import type { TimedEvent } from '@baton/core/timed'
import { complaintsOf, type Followed } from './check-topics.ts'
import type { Received } from './sse-client.ts'

/** The checker of topics finds each way to break the promise. */

const stored: readonly TimedEvent[] = [3, 5, 6, 9].map((sequence, at) => ({
  sequence,
  atMs: 1000 + sequence,
  subject: 'topic.a',
  previous: null,
  loss: null,
  event: { topic: 'a', sequence, type: 'message', time: '', data: `a ${at + 1}` },
}))

const frame = (id: string | null, event: string, data: string, connection = 1): Received => ({
  id,
  event,
  data,
  connection,
  retryMs: null,
  comments: [],
  atMs: 0,
})
const open = (id: string, connection = 1) => frame(id, 'stream.open', '{}', connection)
const event = (at: number, connection = 1) => {
  const { sequence, atMs, event: said } = stored[at - 1] as TimedEvent
  return frame(`${sequence}-${atMs}`, 'a', said.data, connection)
}
const client = (...frames: Received[]): Followed => ({
  frames,
  openings: [{ connection: 1, url: '', lastEventId: null, status: 200, atMs: 0 }],
  breach: null,
})

test('a whole history over two connections is good, from where it began', () => {
  expect(
    complaintsOf(client(open('0-1'), event(1), event(2), open('5-1005', 2), event(3, 2), event(4, 2)), stored),
  ).toEqual([])
  expect(complaintsOf(client(open('5-1005'), event(3), event(4)), stored)).toEqual([])
})

describe('what is found', () => {
  const whole = [open('0-1'), event(1), event(2), event(3), event(4)]
  test.each<[string, Followed, RegExp]>([
    ['one is missing', client(...whole.toSpliced(2, 1)), /event 2 of 4: stored 5-1005 a a 2, got 6-1006/],
    ['the last is missing', client(...whole.slice(0, -1)), /event 4 of 4: .*got nothing/],
    ['one comes twice', client(...whole, event(4, 2)), /event 5 of 4: stored nothing, got 9-1009/],
    ['one comes twice in between', client(...whole.toSpliced(2, 0, event(1))), /event 2 of 4/],
    ['two change places', client(open('0-1'), event(1), event(3), event(2), event(4)), /event 2 of 4/],
    ['another id', client(...whole.with(2, frame('5-1006', 'a', 'a 2'))), /event 2 of 4/],
    ['other data', client(...whole.with(2, frame('5-1005', 'a', 'a 3'))), /event 2 of 4/],
    ['a reset', client(...whole, frame('9-1009', 'stream.reset', '{"reason":"trimmed"}', 2)), /a reset/],
    ['never opened', client(), /never opened/],
    ['a breach', { ...client(...whole), breach: new Error('CR') }, /a breach of the format: CR/],
    [
      'a status that ends an EventSource',
      { ...client(...whole), openings: [{ connection: 2, url: '', lastEventId: '', status: 503, atMs: 0 }] },
      /not 200/,
    ],
  ])('%s', (_name, history, complaint) => {
    expect(complaintsOf(history, stored).join('\n')).toMatch(complaint)
  })
})
