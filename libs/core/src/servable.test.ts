import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { judgeRunPosition, startOf, type Place, type RunLog } from './servable.ts'

/** The log of a run whose kept events are these, as the position after `sequence` sees it. */
function seen(kept: readonly Place[], sequence: number, over: Partial<RunLog> = {}): RunLog {
  return {
    first: kept[0] ?? null,
    head: kept.at(-1) ?? null,
    after: kept.find((place) => place.sequence > sequence) ?? null,
    checkpointIndex: 0,
    streamLast: Math.max(100, kept.at(-1)?.sequence ?? 0),
    ...over,
  }
}

const judge = (kept: readonly Place[], sequence: number, mark: number, over: Partial<RunLog> = {}) =>
  judgeRunPosition({ sequence, mark }, seen(kept, sequence, over))

/** Events 5, 6, 7 of a run at the sequences 50, 60, 70 of the stream. */
const kept: readonly Place[] = [
  { sequence: 50, index: 5 },
  { sequence: 60, index: 6 },
  { sequence: 70, index: 7 },
]

describe('a position within what is kept', () => {
  test('is valid at every event, at the start, and at the head', () => {
    for (const { sequence, index } of kept) expect(judge(kept, sequence, index)).toEqual({ valid: true })
    expect(judge(kept, 49, 4)).toEqual({ valid: true })
    expect(judge(kept, 40, 4)).toEqual({ valid: true })
  })

  test('is valid at the head whatever its sequence says', () => {
    expect(judge(kept, 99, 7)).toEqual({ valid: true })
    expect(judge(kept, 5000, 7)).toEqual({ valid: true })
  })
})

describe('a position that cannot be served', () => {
  test('trimmed: the oldest kept lies after it, and exactly so many are missing', () => {
    expect(judge(kept, 20, 2)).toEqual({ valid: false, reason: 'trimmed', missed: 2 })
    expect(judge(kept, 0, 0)).toEqual({ valid: false, reason: 'trimmed', missed: 4 })
  })

  test('trimmed: nothing is kept, and how many are missing cannot be known', () => {
    expect(judge([], 20, 2, { checkpointIndex: 7 })).toEqual({ valid: false, reason: 'trimmed', missed: null })
  })

  test('recreated: beyond the last sequence of the stream', () => {
    expect(judge(kept, 500, 6)).toEqual({ valid: false, reason: 'recreated', missed: null })
    expect(judge([], 500, 6)).toEqual({ valid: false, reason: 'recreated', missed: null })
  })

  test('unknown-id: of another run, or of a stream made anew that has grown past it', () => {
    expect(judge(kept, 60, 3)).toEqual({ valid: false, reason: 'unknown-id', missed: null })
    expect(judge(kept, 55, 200)).toEqual({ valid: false, reason: 'unknown-id', missed: null })
    expect(judge(kept, 70, 9)).toEqual({ valid: false, reason: 'unknown-id', missed: null })
  })
})

describe('a run of which nothing is kept', () => {
  test('stands at its checkpoint, and at 0 without one', () => {
    expect(judge([], 20, 7, { checkpointIndex: 7 })).toEqual({ valid: true })
    expect(judge([], 0, 0)).toEqual({ valid: true })
    expect(judge([], 12, 0)).toEqual({ valid: true })
  })

  test('the index goes on after everything aged out', () => {
    expect(judge([{ sequence: 90, index: 8 }], 70, 7, { checkpointIndex: 7 })).toEqual({ valid: true })
  })
})

test('the place a run starts after is always valid', () => {
  const log = fc.array(fc.nat({ max: 50 }), { maxLength: 20 })
  fc.assert(
    fc.property(log, fc.nat({ max: 1000 }), (gaps, before) => {
      let sequence = 1
      const places = gaps.map((gap, at) => ({ sequence: (sequence += gap + 1), index: before + at + 1 }))
      const checkpoint = before === 0 ? null : { sequence: 1, index: before }
      const start = startOf({ first: places[0] ?? null, checkpoint })
      const verdict = judge(places, start.sequence, start.index, { checkpointIndex: before })
      expect(verdict).toEqual({ valid: true })
    }),
  )
})

test('a valid position never hides a hole: the next event is the next index', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 20 }),
      fc.nat(60),
      fc.nat(60),
      (gaps, n, mark) => {
        let sequence = 0
        const places = gaps.map((gap, at) => ({ sequence: (sequence += gap + 1), index: at + 3 }))
        if (!judge(places, n, mark).valid) return
        const next = places.find((place) => place.sequence > n)
        expect(next?.index ?? (places.at(-1)?.index ?? 0) + 1).toBe(mark + 1)
      },
    ),
  )
})
