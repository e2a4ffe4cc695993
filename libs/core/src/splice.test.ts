import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Place } from './servable.ts'
import { runOrder, Splice, type Heard } from './splice.ts'

const at = (index: number, sequence = index * 10): Place => ({ sequence, index })
/** As the server tells it live: with the sequence of the event before it. */
const heard = (index: number, sequence = index * 10, previous = (index - 1) * 10): Heard<Place> => ({
  sequence,
  index,
  previous,
})
const { position } = runOrder
const START = at(0)

describe('live events', () => {
  test('that follow are handed out at once', () => {
    const splice = new Splice(position(START), 100, runOrder)
    expect(splice.live(heard(1))).toEqual([heard(1)])
    expect(splice.live(heard(2))).toEqual([heard(2)])
    expect(splice.waiting).toBe(false)
  })

  test('already handed out are dropped', () => {
    const splice = new Splice(position(at(5)), 100, runOrder)
    expect(splice.live(heard(4))).toEqual([])
    expect(splice.live(heard(5))).toEqual([])
    expect(splice.waiting).toBe(false)
  })

  test('after a hole wait until the log has filled it', () => {
    const splice = new Splice(position(START), 100, runOrder)
    expect(splice.live(heard(3))).toEqual([])
    expect(splice.live(heard(4))).toEqual([])
    expect(splice.waiting).toBe(true)
    expect(splice.read(at(1))).toEqual([at(1)])
    expect(splice.read(at(2))).toEqual([at(2), heard(3), heard(4)])
    expect(splice.waiting).toBe(false)
    expect(splice.read(at(3))).toEqual([])
  })

  test('beyond the limit are forgotten, and the log is asked for them', () => {
    const splice = new Splice(position(START), 1, runOrder)
    splice.live(heard(2))
    splice.live(heard(3))
    expect(splice.read(at(1))).toEqual([at(1), heard(2)])
    expect(splice.waiting).toBe(true)
    expect(splice.read(at(3))).toEqual([at(3)])
    expect(splice.waiting).toBe(false)
  })

  test('whose index goes back, in a log begun anew, are never handed out as they come', () => {
    const splice = new Splice(position(at(7)), 100, runOrder)
    expect(splice.live(heard(1, 80))).toEqual([])
    expect(splice.waiting).toBe(true)
    expect(splice.read(at(1, 80))).toBe('hole')
  })
})

describe('an order that cannot see a hole by itself', () => {
  const anything = { position, follows: () => true, continues: () => !doubtful, blind: true as const }
  let doubtful = false

  test('is not trusted while something waits, nor after something was forgotten, until the log is read so far', () => {
    const splice = new Splice<Place>(position(START), 2, anything)
    doubtful = true
    expect(splice.live(heard(3))).toEqual([])
    doubtful = false
    expect(splice.live(heard(4))).toEqual([])
    expect(splice.live(heard(5))).toEqual([])
    expect(splice.read(at(1))).toEqual([at(1), heard(3), heard(4)])
    // 5 was forgotten: 6 must wait for it.
    expect(splice.live(heard(6))).toEqual([])
    splice.restart(splice.last)
    expect(splice.live(heard(7))).toEqual([])
    expect(splice.waiting).toBe(true)
    expect(splice.read(at(5))).toEqual([at(5)])
    expect(splice.read(at(6))).toEqual([at(6)])
    expect(splice.read(at(7))).toEqual([at(7)])
    expect(splice.waiting).toBe(false)
    expect(splice.live(heard(8))).toEqual([heard(8)])
  })

  test('is told of a loss once by all that was read with it, and of another one again', () => {
    let loss: object | null = {}
    const told = { position, follows: () => true, continues: () => true, loss: () => loss, blind: true as const }
    const splice = new Splice<Place>(position(START), 2, told)
    expect(splice.read(at(1))).toBe('hole')
    splice.restart({ sequence: 9, mark: 0 })
    expect(splice.read(at(1))).toEqual([at(1)])
    expect(splice.read(at(2))).toEqual([at(2)])
    // Read again from further back: what it stands behind now is another loss, which lies before what is next.
    loss = {}
    expect(splice.read(at(1))).toEqual([])
    expect(splice.read(at(3))).toBe('hole')
    splice.restart({ sequence: 29, mark: 0 })
    expect(splice.read(at(3))).toEqual([at(3)])
    loss = null
    expect(splice.read(at(4))).toEqual([at(4)])
  })

  test('moves on over what the log does not have', () => {
    const splice = new Splice<Place>(position(START), 2, anything)
    splice.advance({ sequence: 55, mark: 0 })
    expect(splice.waiting).toBe(false)
    expect(splice.live(heard(5))).toEqual([])
    expect(splice.live(heard(6))).toEqual([heard(6)])
  })
})

describe('a hole in the log itself', () => {
  test('takes nothing until the splice is started again after it', () => {
    const splice = new Splice(position(at(2)), 100, runOrder)
    splice.live(heard(9))
    expect(splice.read(at(8))).toBe('hole')
    expect(splice.last).toEqual(position(at(2)))
    splice.restart({ sequence: 79, mark: 7 })
    expect(splice.read(at(8))).toEqual([at(8), heard(9)])
  })

  test('a restart backwards forgets what was heard before', () => {
    const splice = new Splice(position(at(50)), 100, runOrder)
    splice.restart(position(START))
    expect(splice.waiting).toBe(false)
    expect(splice.live(heard(1))).toEqual([heard(1)])
  })
})

describe('what the log has not told', () => {
  test('is not handed out for its index alone: it must name the event before it', () => {
    const splice = new Splice(position(at(3)), 100, runOrder)
    expect(splice.live(heard(4, 1030, 1029))).toEqual([])
    expect(splice.live(heard(5, 1031, 1030))).toEqual([])
    expect(splice.live(heard(4))).toEqual([heard(4)])
    expect(splice.live(heard(5))).toEqual([heard(5)])
    expect(splice.last).toEqual(position(heard(5)))
    expect(splice.waiting).toBe(true)
  })

  test('is forgotten once the log is known to end before it', () => {
    const splice = new Splice(position(at(3)), 100, runOrder)
    splice.live(heard(4, 1030, 1029))
    splice.live(heard(6))
    splice.disown(60)
    expect(splice.newestHeard).toBe(60)
    expect(splice.waiting).toBe(true)
    expect([splice.read(at(4)), splice.read(at(5))]).toEqual([[at(4)], [at(5), heard(6)]])
    expect(splice.waiting).toBe(false)
  })
})

/**
 * Any order of: the run stores an event and it is heard live or lost on the way; somebody publishes by hand where it is
 * heard; somebody reads the log as far as a replica has it. Whatever happens, what comes out is 1, 2, 3, … without a hole, and all of it in the end.
 */
test('any interleaving of lossy live events and readings of the log gives a strictly consecutive sequence', () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('store' as const), heard: fc.boolean(), gap: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('read' as const), lag: fc.nat(4) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('repeat' as const), which: fc.nat(50) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('forge' as const), ahead: fc.nat(3) }) },
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), fc.integer({ min: 0, max: 6 }), (steps, limit) => {
      const log: Heard<Place>[] = []
      const out: Place[] = []
      const splice = new Splice<Place>({ sequence: 0, mark: 0 }, limit, runOrder)
      const read = (upTo: number) => {
        for (const event of log.slice(0, upTo)) {
          const next = splice.read(event)
          expect(next).not.toBe('hole')
          out.push(...(next as readonly Place[]))
        }
      }
      for (const one of steps) {
        if (one.kind === 'store') {
          const previous = log.at(-1)?.sequence ?? 0
          const event = { sequence: previous + 1 + one.gap, index: log.length + 1, previous }
          log.push(event)
          if (one.heard) out.push(...splice.live(event))
        } else if (one.kind === 'read') {
          read(Math.max(0, log.length - one.lag))
        } else if (one.kind === 'forge') {
          expect(splice.live(heard(log.length + one.ahead, 1e6, 1e6 - 1))).toEqual([])
        } else {
          const again = log[one.which % Math.max(1, log.length)]
          if (again !== undefined) out.push(...splice.live(again))
        }
        expect(out.map((event) => event.index)).toEqual(out.map((_, at) => at + 1))
        // Nothing that was heard is forgotten: either it is out, or the splice says that the log must be read.
        if (!splice.waiting) expect(splice.last).toEqual(position(out.at(-1) ?? { sequence: 0, index: 0 }))
      }
      read(log.length)
      splice.disown(log.at(-1)?.sequence ?? 0)
      expect(out).toEqual(log)
      expect(splice.waiting).toBe(false)
    }),
    { numRuns: 500 },
  )
})
