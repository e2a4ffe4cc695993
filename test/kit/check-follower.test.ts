import { expect, test } from 'vitest'
import { checkFollower, type Stored } from './check-follower.ts'
import { checkHeard, checkPublished, type Published } from './check-published.ts'
import type { ClientHistory } from './history.ts'
import type { Received } from './sse-client.ts'

const stored: readonly Stored[] = [3, 4, 7, 9].map((sequence) => ({ sequence, of: 'orders.1', data: `${sequence}` }))
const frame = (over: Partial<Received>): Received => ({
  id: '2-1000',
  event: null,
  data: '{}',
  retryMs: null,
  comments: [],
  atMs: 0,
  connection: 1,
  ...over,
})
const event = (sequence: number, connection = 1, data = `${sequence}`): Received =>
  frame({ id: `${sequence}-1000`, data: JSON.stringify({ topic: 'orders.1', sequence, data }), connection })
const open = (sequence: number, connection = 1): Received =>
  frame({ id: `${sequence}-1000`, event: 'stream.open', connection })
const client = (frames: readonly Received[], breach: string | null = null): ClientHistory => ({
  client: 'a',
  frames,
  openings: [{ connection: 1, url: '', lastEventId: null, status: 200, atMs: 0 }],
  breach,
  firstIndex: 1,
})
const complaints = (frames: readonly Received[]) =>
  checkFollower('orders', client(frames), stored).map(({ what }) => what)

test('I2: a follower that has all from its first position on, over two connections, is right', () => {
  expect(complaints([open(3), event(4), event(7), open(7, 2), event(9, 2)])).toEqual([])
})

test('I2: what is stored after a follower was asked for the last time it may have or not', () => {
  const seen = (frames: readonly Received[], upTo: number) => checkFollower('orders', client(frames), stored, upTo)
  expect(seen([open(2), event(3), event(4), event(7)], 7)).toEqual([])
  expect(seen([open(2), event(3), event(4), event(7), event(9)], 7)).toEqual([])
  expect(seen([open(2), event(3), event(4), event(9)], 4)).toHaveLength(1)
  expect(seen([open(2), event(3), event(4)], 7)).toHaveLength(1)
})

test.each([
  ['one missing', [open(2), event(3), event(7), event(9)], /has the sequence 7, it must be 4/],
  ['one twice', [open(2), event(3), event(4), event(4, 2), event(7), event(9)], /has the sequence 4, it must be 7/],
  ['the last missing', [open(2), event(3), event(4), event(7)], /1 events are missing at the end/],
  ['one too many', [open(2), event(3), event(4), event(7), event(9), event(11)], /nothing more is stored/],
  ['other data', [open(2), event(3), event(4, 1, 'x'), event(7), event(9)], /does not say what sequence 4 holds/],
  [
    'a reset',
    [open(2), event(3), event(4), frame({ event: 'stream.reset' }), event(7), event(9)],
    /reset nobody had to send/,
  ],
  ['never opened', [], /never opened/],
] as const)('I2: a follower with %s is not', (_, frames, complaint) => {
  expect(complaints(frames)).toEqual([expect.stringMatching(complaint)])
})

const published = (over: Partial<Published> = {}): Published => ({
  topic: 'orders.1',
  data: '3',
  outcome: 'acked',
  sequence: 3,
  ...over,
})
const all = [3, 4, 7, 9].map((sequence) => published({ data: `${sequence}`, sequence }))

test('I4: what was acked is stored; what nobody heard of may be or not', () => {
  const unknown = (data: string) => published({ data, outcome: 'unknown', sequence: null })
  expect(checkPublished(all, stored)).toEqual([])
  expect(checkPublished([...all.slice(1), unknown('3'), unknown('12')], stored)).toEqual([])
})

test.each([
  [
    'acked and absent',
    [...all, published({ data: '12', sequence: 12 })],
    stored,
    /acked as sequence 12, but there is nothing/,
  ],
  [
    'acked elsewhere',
    [published({ sequence: 4 }), ...all.slice(1)],
    stored,
    /acked as sequence 4, but there is orders.1: 4/,
  ],
  ['stored twice', all, [...stored, { sequence: 12, of: 'orders.1', data: '9' }], /9 is stored twice: as 9 and as 12/],
  ['stored, never published', all.slice(1), stored, /sequence 3 was never published/],
] as const)('I4: an event %s breaks it', (_, told, log, complaint) => {
  expect(checkPublished(told, log).map(({ what }) => what)).toEqual([expect.stringMatching(complaint)])
})

test('I4: a native subscriber hears what is stored, in order or not at all, and of several nodes perhaps again', () => {
  const log = new Map([
    [
      'r',
      new Map([
        [5, { index: 1, data: 'a' }],
        [6, { index: 2, data: 'b' }],
      ]),
    ],
  ])
  const heard = (sequence: number, index: number, data: string) => ({ run: 'r', sequence, index, data })
  expect(checkHeard([heard(6, 2, 'b')], log, false)).toEqual([])
  expect(checkHeard([heard(6, 2, 'b'), heard(5, 1, 'a')], log, false)).toHaveLength(1)
  // A new leader says again what the old one had said.
  expect(checkHeard([heard(5, 1, 'a'), heard(6, 2, 'b'), heard(5, 1, 'a'), heard(6, 2, 'b')], log, true)).toEqual([])
  for (const mayComeAgain of [false, true]) {
    expect(checkHeard([heard(5, 1, 'b')], log, mayComeAgain)).toHaveLength(1)
    expect(checkHeard([heard(8, 3, 'c')], log, mayComeAgain)).toHaveLength(1)
  }
})
