import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backoffMs } from './backoff.ts'

const limits = { baseMs: 250, ceilingMs: 30_000, floorMs: 250 }

test('a wait is never below the floor nor above the ceiling', () => {
  fc.assert(
    fc.property(
      fc.nat(10_000),
      fc.double({ min: 0, max: 0.999999, noNaN: true }),
      fc.nat(60_000),
      (attempt, random, floorMs) => {
        const wait = backoffMs(attempt, random, { ...limits, floorMs })
        expect(wait).toBeGreaterThanOrEqual(floorMs)
        expect(wait).toBeLessThanOrEqual(Math.max(floorMs, limits.ceilingMs))
      },
    ),
  )
})

test('the spread grows with the attempts', () => {
  expect(backoffMs(0, 0.99, limits)).toBe(250)
  expect(backoffMs(4, 0.5, limits)).toBe(250 + 0.5 * (4000 - 250))
  expect(backoffMs(50, 1, limits)).toBe(30_000)
})
