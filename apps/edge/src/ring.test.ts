import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoredEvent } from '@baton/core/event'
import { EventEntry, OwnEntry } from './entry.ts'
import { createView, Ring, type Batch } from './ring.ts'

const stored = (index: number, over: Partial<StoredEvent> = {}): StoredEvent => ({
  run: 'r',
  sequence: index * 10,
  index,
  epoch: 1,
  job: 'main',
  type: 'output',
  name: 'output',
  upstreamId: null,
  upstreamOffset: null,
  ordinal: index,
  time: '',
  data: `event ${index}`,
  ...over,
})

const ALL = createView('plain', null, true)
const MUCH = 1e9

function ring(...indexes: number[]): Ring {
  const start = (indexes[0] ?? 1) - 1
  const made = new Ring({ sequence: start * 10, mark: start })
  for (const index of indexes) made.push(new EventEntry(stored(index)))
  return made
}

const text = (batch: Batch | 'behind' | null): string =>
  batch === null || batch === 'behind' ? String(batch) : String(batch.bytes)

describe('a place in a ring', () => {
  test('is found by its sequence and proved by its index', () => {
    const one = ring(5, 6, 7)
    expect(one.locate({ sequence: 40, mark: 4 })).toBe(0)
    expect(one.locate({ sequence: 50, mark: 5 })).toBe(1)
    expect(one.locate({ sequence: 55, mark: 5 })).toBe(1)
    expect(one.locate({ sequence: 70, mark: 7 })).toBe(3)
    expect(one.locate({ sequence: 999, mark: 7 })).toBe(3)
  })

  test('is not here when it is too old, foreign, or of the future', () => {
    const one = ring(5, 6, 7)
    expect(one.locate({ sequence: 30, mark: 3 })).toBeNull()
    expect(one.locate({ sequence: 50, mark: 3 })).toBeNull()
    expect(one.locate({ sequence: 70, mark: 9 })).toBeNull()
  })

  test('right before a hole is not here, though the reset in it has the next index', () => {
    const one = ring(5)
    one.push(new OwnEntry({ sequence: 69, mark: 6 }, 'event: stream.reset\n\n'))
    one.push(new EventEntry(stored(7)))
    expect(one.locate({ sequence: 50, mark: 5 })).toBeNull()
    expect(one.locate({ sequence: 69, mark: 6 })).toBe(2)
  })

  test('is never one that would show a hole', () => {
    fc.assert(
      fc.property(fc.nat(120), fc.nat(12), fc.nat(900), (sequence, mark, keep) => {
        const one = ring(3, 4, 5, 6, 7, 8)
        one.trim(keep)
        const number = one.locate({ sequence, mark })
        if (number === null) return
        const [next] = one.from(number)
        expect(next?.place.mark ?? one.last.mark + 1).toBe(mark + 1)
      }),
    )
  })

  test('before a reset entry is the log’s to judge', () => {
    const one = ring(5)
    one.push(new OwnEntry({ sequence: 80, mark: 8 }, 'event: stream.reset\ndata: {}\n\n'))
    one.push(new EventEntry(stored(9)))
    expect(one.locate({ sequence: 50, mark: 5 })).toBeNull()
    expect(one.locate({ sequence: 80, mark: 8 })).toBe(2)
  })
})

describe('a batch', () => {
  test('carries all that is new, as one buffer that all clients share', () => {
    const one = ring(1, 2, 3)
    const batch = one.take(0, ALL, MUCH)
    expect(batch).toMatchObject({ events: 3, next: 3, place: { mark: 3 }, ends: false })
    expect(one.take(0, ALL, MUCH)).toBe(batch)
    expect(one.take(3, ALL, MUCH)).toBeNull()
    one.push(new EventEntry(stored(4)))
    expect(one.take(0, ALL, MUCH)).toMatchObject({ events: 4 })
  })

  test('of one event is the event’s own bytes, not a copy', () => {
    const entry = new EventEntry(stored(1))
    const one = new Ring({ sequence: 0, mark: 0 })
    one.push(entry)
    expect(one.take(0, ALL, MUCH)).toMatchObject({ bytes: entry.chunk('plain') })
    expect((one.take(0, ALL, MUCH) as Batch).bytes).toBe(entry.chunk('plain'))
  })

  test('holds at most the bytes asked for, or one event where that is larger', () => {
    const size = (ring(1).take(0, ALL, 1) as Batch).bytes?.length ?? 0
    const other = ring(1, 2, 3, 4)
    expect(other.take(1, ALL, 2 * size)).toMatchObject({ events: 2, next: 3 })
    expect(ring(1, 2).take(0, ALL, 1)).toMatchObject({ events: 1, next: 1 })
  })

  test('of a filter skips what it hides, and says how far it looked', () => {
    const one = new Ring({ sequence: 0, mark: 0 })
    for (const [at, type] of ['a', 'b', 'a', 'b', 'b'].entries()) one.push(new EventEntry(stored(at + 1, { type })))
    const batch = one.take(0, createView('plain', ['a'], true), MUCH)
    expect(batch).toMatchObject({ events: 2, next: 5, place: { mark: 5 }, shown: { mark: 3 } })
    expect(one.take(3, createView('plain', ['c'], true), MUCH)).toMatchObject({ bytes: null, shown: null, next: 5 })
  })

  test('stops at the end of the run', () => {
    const one = ring(1)
    one.push(new EventEntry(stored(2, { type: 'stream.end', name: null, data: '{}' })))
    expect(one.take(0, createView('plain', ['nothing'], true), MUCH)).toMatchObject({ events: 1, next: 2, ends: true })
  })

  test('for HTTP/1.0 has no chunk sizes', () => {
    expect(text(ring(1).take(0, createView('plain', null, false), MUCH))).toBe(
      'id: 10-1\nevent: output\ndata: event 1\n\n',
    )
    expect(text(ring(1).take(0, ALL, MUCH))).toMatch(/^26\r\n/)
  })
})

describe('a ring’s bound', () => {
  test('forgets the oldest; who wanted them is behind', () => {
    const one = ring(1, 2, 3, 4, 5)
    one.trim(one.bytes / 2)
    expect(one.first).toBeGreaterThan(0)
    expect(one.take(0, ALL, MUCH)).toBe('behind')
    expect(one.base).toMatchObject({ mark: one.first })
    expect(one.take(one.first, ALL, MUCH)).toMatchObject({ next: 5 })
  })

  test('numbers go on after it was cleared for a log begun anew', () => {
    const one = ring(5, 6)
    one.clear({ sequence: 3, mark: 0 })
    expect(one.next).toBe(2)
    expect(one.locate({ sequence: 60, mark: 6 })).toBeNull()
    one.push(new EventEntry(stored(1)))
    expect(one.take(2, ALL, MUCH)).toMatchObject({ next: 3, place: { mark: 1 } })
  })
})

test('I7: however many filters a client comes with, what was made for them stays within a bound', () => {
  const one = ring(...Array.from({ length: 2000 }, (_, at) => at + 1))
  const whole = 2000 * text(one.take(1999, ALL, MUCH)).length
  for (let at = 0; at < 200; at++) {
    const view = createView('plain', ['output', `never ${at}`], true)
    const batch = one.take(0, view, MUCH)
    expect(text(batch)).toHaveLength(text(one.take(0, ALL, MUCH)).length)
    expect(one.rowsBytes).toBeLessThan(4 * 2 ** 20 + whole)
  }
  expect(200 * whole).toBeGreaterThan(16 * 2 ** 20)
})
