import { expect, test } from 'vitest'
import { RunEnds } from './run-ends.ts'

const COMPLETED = { reason: 'completed' } as const
const FAILED = { reason: 'failed', detail: 'why' } as const

test('all have ended when each has, by its event or its status; never where there are no runs', () => {
  const ends = new RunEnds(['a', 'b'])
  ends.note('a', 7, COMPLETED)
  expect(ends.areAll).toBe(false)
  ends.noteStatus('b', FAILED)
  expect(ends.areAll).toBe(true)
  expect(ends.last).toBe(7)
  expect(new RunEnds([]).areAll).toBe(false)
})

test('an end that can be given no more is not the last one kept, and is still told', () => {
  const ends = new RunEnds(['a', 'b'])
  ends.note('a', 7, COMPLETED)
  ends.note('b', 9, FAILED)
  expect(ends.lastKept).toEqual({ run: 'b', sequence: 9 })
  ends.lose('b')
  expect(ends.lastKept).toEqual({ run: 'a', sequence: 7 })
  expect(ends.last).toBe(9)
  expect(ends.untoldAfter(7)).toEqual([{ run: 'b', said: FAILED }])
  // Behind all of them there is nothing to go by: how all have ended.
  expect(ends.untoldAfter(9).map(({ run }) => run)).toEqual(['a', 'b'])
})

test('what an event said counts before what a status says', () => {
  const ends = new RunEnds(['a'])
  ends.noteStatus('a', COMPLETED)
  ends.note('a', 7, FAILED)
  ends.noteStatus('a', COMPLETED)
  expect(ends.untoldAfter(0)).toEqual([{ run: 'a', said: FAILED }])
})
