import { describe, expect, test } from 'vitest'
import { advance, cursorOf, cursorsByTail, EMPTY_CHECKPOINT, parseCheckpoint, type CursorEvent } from './cursor.ts'
import { DEFAULT_TERMINAL_TYPES } from './event.ts'
import { FRESH_CURSOR } from './records.ts'

const event = (over: Partial<CursorEvent>): CursorEvent => ({
  index: 1,
  sequence: 11,
  job: 'main',
  type: 'output',
  name: 'output',
  data: '{}',
  ordinal: 1,
  upstreamId: null,
  upstreamOffset: null,
  ...over,
})
const fold = (events: CursorEvent[], from = EMPTY_CHECKPOINT) =>
  events.reduce((cursors, one) => advance(cursors, one, DEFAULT_TERMINAL_TYPES), from)

describe('the cursors of a run by its tail', () => {
  const terminalTypes = DEFAULT_TERMINAL_TYPES
  const first = fold([event({})])
  const last = event({ index: 9, sequence: 30, ordinal: 9, upstreamId: 'nine', upstreamOffset: 0 })

  test('are the checkpoint where nothing came after it', () => {
    expect(cursorsByTail(first, null, { jobs: ['main'], terminalTypes })).toBe(first)
    expect(cursorsByTail(first, event({}), { jobs: ['main', 'b'], terminalTypes })).toBe(first)
  })

  test('are told by the last event where the run has one job', () => {
    const cursors = cursorsByTail(first, last, { jobs: ['main'], terminalTypes })
    expect(cursors).toMatchObject({ index: 9, sequence: 30, jobs: { main: { ordinal: 9, upstreamId: 'nine' } } })
  })

  test('have to be read where the run has more jobs, or the last event is of none of them', () => {
    expect(cursorsByTail(first, last, { jobs: ['main', 'b'], terminalTypes })).toBeNull()
    expect(cursorsByTail(first, event({ index: 9, job: null }), { jobs: ['main'], terminalTypes })).toBeNull()
  })
})

describe('the cursors of a run', () => {
  test('say of each job its last event and the id in force', () => {
    const cursors = fold([
      event({ upstreamId: '5', upstreamOffset: 0 }),
      event({ index: 2, sequence: 12, job: 'b', ordinal: 1 }),
      event({ index: 3, sequence: 15, ordinal: 2, upstreamId: '5', upstreamOffset: 1 }),
    ])
    expect(cursors.index).toBe(3)
    expect(cursors.sequence).toBe(15)
    expect(cursors.jobs['main']).toMatchObject({
      ordinal: 2,
      upstreamId: '5',
      upstreamOffset: 1,
      gap: false,
      ended: null,
    })
    expect(cursors.jobs['b']?.ordinal).toBe(1)
  })
  test('an event a checkpoint covers changes nothing', () => {
    const checkpoint = fold([event({ index: 4 })])
    expect(advance(checkpoint, event({ index: 4, ordinal: 9 }), [])).toBe(checkpoint)
  })
  test('a terminal event ends its job only', () => {
    const cursors = fold([event({ type: 'failed' }), event({ index: 2, job: 'b', data: '[DONE]' })])
    expect(cursors.jobs['main']?.ended).toEqual({ reason: 'failed', detail: null })
    expect(cursors.jobs['b']?.ended).toEqual({ reason: 'completed', detail: null })
  })
  test('a gap repeats the ordinal and is noted, an unreachable one fails the job', () => {
    const gap = event({ index: 2, type: 'stream.gap', data: '{"job":"main","reason":"no-replay","lost":null}' })
    expect(fold([event({}), gap]).jobs['main']).toMatchObject({ ordinal: 1, gap: true, ended: null })
    const end = event({ index: 2, type: 'stream.gap', data: '{"job":"main","reason":"unreachable","lost":null}' })
    expect(fold([event({}), end]).jobs['main']?.ended?.reason).toBe('failed')
  })
  test.each(['constructor', 'toString', '__proto__'])('a job may be called %s, as any other', (job) => {
    expect(cursorOf(EMPTY_CHECKPOINT, job)).toEqual(FRESH_CURSOR)
    const cursors = fold([event({ job, ordinal: 1 }), event({ index: 2, job, ordinal: 2, upstreamId: '5' })])
    expect(cursorOf(cursors, job)).toMatchObject({ ordinal: 2, upstreamId: '5', ended: null })
    const read = parseCheckpoint(JSON.stringify(cursors))
    expect(read === null ? null : cursorOf(read, job)).toEqual(cursorOf(cursors, job))
    expect(cursorOf(cursors, 'main')).toEqual(FRESH_CURSOR)
  })
  test('stream.end belongs to no job and moves the index', () => {
    const cursors = fold([event({}), event({ index: 2, sequence: 20, job: null, type: 'stream.end', ordinal: null })])
    expect(cursors).toMatchObject({ index: 2, sequence: 20 })
    expect(Object.keys(cursors.jobs)).toEqual(['main'])
  })
})

test('a checkpoint is read as it was written, and what is none is no checkpoint', () => {
  const checkpoint = fold([event({ upstreamId: '5', upstreamOffset: 0 })])
  expect(parseCheckpoint(JSON.stringify(checkpoint))).toEqual(checkpoint)
  for (const text of [
    '',
    'garbage',
    'null',
    '7',
    '{}',
    '{"index":1,"sequence":2}',
    '{"index":"1","sequence":2,"jobs":{}}',
  ]) {
    expect(parseCheckpoint(text)).toBeNull()
  }
  expect(parseCheckpoint('{"index":1,"sequence":2,"jobs":{"main":null}}')).toBeNull()
})
