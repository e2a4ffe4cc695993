import { describe, expect, test } from 'vitest'
import { isOfAnotherStream, mayHaveLost, type TimedLog } from './servable.ts'
import { Splice } from './splice.ts'
import { topicOrder, type TimedEvent } from './timed.ts'

const HOUR_MS = 3_600_000
const CREATED_MS = 1_800_000_000_000

/** A stream that has trimmed what came before 500 and has all from there to 1000. */
const log = (over: Partial<TimedLog> = {}): TimedLog => ({
  createdAtMs: CREATED_MS,
  nowMs: CREATED_MS + 10 * HOUR_MS,
  firstSequence: 500,
  lastSequence: 1000,
  keptAtMs: null,
  bytes: 1000,
  maxBytes: 10_000,
  maxAgeMs: 24 * HOUR_MS,
  raisedAt: 0,
  ...over,
})

const at = (sequence: number, hours = 1) => ({ sequence, mark: CREATED_MS + hours * HOUR_MS })

describe('a position is of another stream', () => {
  test.each([
    ['of a time before this one was made', { sequence: 600, mark: CREATED_MS - 1 }, log(), true],
    ['beyond its end', at(1001), log(), true],
    ['at a message of another time', at(600), log({ keptAtMs: at(600).mark + 1 }), true],
    ['at a message of this time', at(600), log({ keptAtMs: at(600).mark }), false],
    ['where the message is gone', at(400), log(), false],
    ['of a stream that has no message', { sequence: 0, mark: CREATED_MS }, log({ lastSequence: 0 }), false],
  ])('%s: %o', (_name, position, stream, expected) => {
    expect(isOfAnotherStream(position, stream)).toBe(expected)
  })
})

describe('a stream may have lost what came after a position', () => {
  test.each([
    ['young, and the stream is not full', at(400), log(), false],
    ['older than the stream keeps', at(400), log({ nowMs: at(0, 25.5).mark }), true],
    ['within a minute of that', at(400), log({ nowMs: at(0, 25).mark - 30_000 }), true],
    ['old, but the stream still begins there', at(499), log({ nowMs: at(0, 100).mark }), false],
    ['old, but nothing came after it', at(1000), log({ nowMs: at(0, 100).mark, firstSequence: 1001 }), false],
    ['before the beginning of a stream that is full', at(400), log({ bytes: 9000 }), true],
    ['within what a full stream still has', at(600), log({ bytes: 9000 }), false],
    ['from before the cap was raised', at(600), log({ raisedAt: 601 }), true],
    ['from when it was raised', at(600), log({ raisedAt: 600 }), false],
  ])('%s: %o', (_name, position, stream, expected) => {
    expect(mayHaveLost(position, stream)).toBe(expected)
  })
})

describe('an event of a topic that is heard', () => {
  const event = (sequence: number, previous: number): TimedEvent => ({
    sequence,
    atMs: CREATED_MS + sequence,
    subject: 'topic.t',
    previous,
    loss: null,
    event: { topic: 't', sequence, type: 'message', time: '', data: '' },
  })

  test('follows the one that it names, and no other', () => {
    const splice = new Splice({ sequence: 90, mark: 0 }, 10, topicOrder, event(70, 60))
    expect(splice.live(event(91, 0))).toEqual([])
    expect(splice.live(event(95, 70))).toEqual([event(95, 70)])
    expect(splice.live(event(99, 97))).toEqual([])
    expect(splice.read(event(97, 95))).toEqual([event(97, 95), event(99, 97)])
  })

  test('follows none where the topic had none', () => {
    const splice = new Splice({ sequence: 90, mark: 0 }, 10, topicOrder)
    expect(splice.live(event(95, 93))).toEqual([])
    expect(splice.live(event(96, 0))).toEqual([event(96, 0)])
  })
})

describe('an event of a topic contradicts a position', () => {
  const heard = (sequence: number, atMs: number): TimedEvent => ({
    sequence,
    atMs,
    subject: 'topic.t',
    previous: null,
    loss: null,
    event: { topic: 't', sequence, type: 'message', time: '', data: '' },
  })
  test.each([
    ['stored later, and yet before it: sequences began again', heard(3, at(10).mark + 1), true],
    ['in its place, of another time', heard(10, at(10).mark + 1), true],
    ['heard late, and read already', heard(9, at(10).mark), false],
    ['the very one', heard(10, at(10).mark), false],
    ['the next one', heard(11, at(10).mark + 1), false],
  ])('%s', (_name, event, expected) => {
    expect(topicOrder.contradicts?.(at(10), event)).toBe(expected)
  })
})
