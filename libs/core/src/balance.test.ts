import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { claimDelayMs, rank, rebalance, share } from './balance.ts'

const boots = (n: number) => Array.from({ length: n }, (_, at) => `boot-${at}`)

describe('rank', () => {
  test('every relay computes the same order, and each place is taken once', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 9 }),
        (run, all) => {
          const places = all.map((self) => rank(run, self, all))
          expect(places.toSorted((a, b) => a - b)).toEqual(all.map((_, at) => at))
        },
      ),
    )
  })

  test('a relay that leaves moves only its own runs', () => {
    const runs = Array.from({ length: 500 }, (_, at) => `run-${at}`)
    const first = (run: string, all: string[]) => all.find((self) => rank(run, self, all) === 0)
    const [before, after] = [boots(4), boots(4).slice(1)]
    for (const run of runs) if (first(run, before) !== 'boot-0') expect(first(run, after)).toBe(first(run, before))
  })

  test('short, similar names spread over the relays', () => {
    const counts = new Map<number, number>()
    for (let at = 0; at < 3000; at++) {
      const place = boots(3).findIndex((self) => rank(`r${at}`, self, boots(3)) === 0)
      counts.set(place, (counts.get(place) ?? 0) + 1)
    }
    for (const count of counts.values()) expect(count).toBeGreaterThan(850)
  })
})

describe('claimDelayMs', () => {
  test('the first in rank does not wait, the others 50 ms a place', () => {
    expect(claimDelayMs({ rank: 0, owned: 0, share: 5 })).toBe(0)
    expect(claimDelayMs({ rank: 2, owned: 4, share: 5 })).toBe(100)
  })
  test('a relay with its share lets every other go first, and still comes', () => {
    expect(claimDelayMs({ rank: 0, owned: 5, share: 5 })).toBe(150)
    expect(claimDelayMs({ rank: 2, owned: 5, share: 5 })).toBe(450)
  })
})

describe('rebalance', () => {
  const load = (boot: string, runs: number, draining = false) => ({ boot, runs, draining })
  test('nothing moves within ten percent', () => {
    expect(rebalance('a', [load('a', 95), load('b', 105)], 5)).toBeNull()
    expect(rebalance('a', [load('a', 0), load('b', 1)], 5)).toBeNull()
  })
  test('a new relay asks the richest for a few', () => {
    expect(rebalance('a', [load('a', 0), load('b', 100), load('c', 50)], 5)).toEqual({ from: 'b', runs: 5 })
  })
  test('a relay at its share asks nobody, nor does a draining one', () => {
    expect(rebalance('b', [load('a', 0), load('b', 100)], 5)).toBeNull()
    expect(rebalance('a', [load('a', 0, true), load('b', 100)], 5)).toBeNull()
  })
  test('moves never overshoot: repeated, they end', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(300), { minLength: 2, maxLength: 6 }), (runs) => {
        const loads = runs.map((count, at) => load(`boot-${at}`, count))
        for (let step = 0; step < 2000; step++) {
          const move = loads.map((me) => ({ me, move: rebalance(me.boot, loads, 5) })).find(({ move }) => move !== null)
          if (move?.move == null) return
          const from = loads.find(({ boot }) => boot === move.move?.from)
          if (from === undefined) throw new Error('asked nobody')
          from.runs -= move.move.runs
          move.me.runs += move.move.runs
        }
        throw new Error('never at rest')
      }),
    )
  })
  test('a share is rounded up', () => expect(share(7, 3)).toBe(3))
})
