import { describe, expect, test } from 'vitest'
import { afterNoEpoch, judgeRead, judgeRefusal, settleAppend } from './settle.ts'

test('a read is believed only where it shows the own owner record', () => {
  expect([judgeRead(0, 20), judgeRead(19, 20), judgeRead(20, 20), judgeRead(21, 20)]).toEqual([
    'behind',
    'behind',
    'whole',
    'lost',
  ])
})

test('only a newer owner record is loss: without it the own one is gone', () => {
  expect([judgeRefusal(21, 20), judgeRefusal(19, 20), judgeRefusal(0, 20)]).toEqual(['lost', 'vanished', 'vanished'])
})

test('an epoch that could not be had is proved, tried again or given up', () => {
  expect((['conflict', 'lost', 'vanished'] as const).map(afterNoEpoch)).toEqual(['prove', 'prove', 'prove'])
  expect((['in_flight', 'unknown_outcome', 'unavailable', 'full'] as const).map(afterNoEpoch)).toEqual(
    Array(4).fill('again'),
  )
  expect((['denied', 'invalid', 'unsupported'] as const).map(afterNoEpoch)).toEqual([null, null, null])
})

describe('an append of unknown outcome, events 11 to 13 of epoch 20', () => {
  const doubtful = { firstIndex: 11, count: 3, epoch: 20 }
  const settled = (index: number, epoch = 20) =>
    settleAppend(doubtful, { last: { index, epoch }, checkpoint: { index: 5 } })

  test('is stored as far as the log has it', () => {
    expect(settled(10, 7)).toEqual({ kind: 'stored', count: 0 })
    expect(settled(12)).toEqual({ kind: 'stored', count: 2 })
    expect(settled(13)).toEqual({ kind: 'stored', count: 3 })
  })

  test('is not taken for somebody else’s events under the same indexes', () => {
    expect(settled(11, 25)).toEqual({ kind: 'lost' })
  })

  test('finds out that what was acknowledged before is gone', () => {
    expect(settled(9)).toEqual({ kind: 'vanished' })
  })

  test('goes by the checkpoint where nothing is kept any more, and by itself without one', () => {
    expect(settleAppend(doubtful, { last: null, checkpoint: { index: 12 } })).toEqual({ kind: 'stored', count: 2 })
    expect(settleAppend(doubtful, { last: null, checkpoint: { index: 4 } })).toEqual({ kind: 'stored', count: 0 })
    expect(settleAppend(doubtful, { last: null, checkpoint: null })).toEqual({ kind: 'stored', count: 0 })
  })
})
