import { expect, test } from 'vitest'
import { Settled } from './settled.ts'

const at = (sequence: number) => ({ sequence, mark: 1000 })

test('a position is settled once whoever may have been cut off before it no longer answers', () => {
  const settled = new Settled()
  settled.note(at(5), 0)
  expect(settled.position(19_999)).toBeNull()
  expect(settled.position(20_000)).toEqual(at(5))
})

test('of several the newest that is old enough counts, however often was asked', () => {
  const settled = new Settled()
  for (let nowMs = 0; nowMs <= 60_000; nowMs += 500) settled.note(at(nowMs), nowMs)
  const { sequence = 0 } = settled.position(60_000) ?? {}
  expect(sequence).toBeLessThanOrEqual(40_000)
  expect(sequence).toBeGreaterThan(35_000)
})

test('of a stream made anew nothing is settled', () => {
  const settled = new Settled()
  settled.note(at(5), 0)
  settled.clear()
  expect(settled.position(30_000)).toBeNull()
})
