import { describe, expect, test } from 'vitest'
import { digest, Emission, headOf, type Emitted } from './emission.ts'
import { GAP } from './event.ts'

const event = (data: string, id: string | null = null, name: string | null = null): Emitted => ({ id, name, data })

describe('a digest', () => {
  test('tells apart what is not the same, wherever the border lies', () => {
    const events = [
      event('abc'),
      event('bc', null, 'a'),
      event('c', null, 'ab'),
      event('bc', 'a'),
      event('', 'a', 'bc'),
      event('abc', ''),
      event('abc', null, ''),
      event(''),
      event('', ''),
      event('', null, ''),
      event('\0'),
      event('\u0100'),
    ]
    expect(new Set(events.map(digest)).size).toBe(events.length)
    expect(digest(event('abc', '1', 'n'))).toBe(digest(event('abc', '1', 'n')))
  })

  test('is a whole number that no two of very many similar events share', () => {
    const digests = new Set<number>()
    for (let i = 0; i < 300_000; i++) {
      const value = digest(event(`{"type":"output","i":${i}}`, String(i % 1000)))
      expect(Number.isSafeInteger(value) && value >= 0).toBe(true)
      digests.add(value)
    }
    expect(digests.size).toBe(300_000)
  })
})

const filled = (limit: number, count: number): Emission => {
  const emission = new Emission(limit)
  for (let i = 1; i <= count; i++) emission.push(i, event(`e${i}`, String(i)))
  return emission
}

describe('an emission', () => {
  test('knows its newest events, and the first one for ever', () => {
    const emission = filled(100, 1000)
    expect(emission.last).toBe(1000)
    expect(1000 - emission.first + 1).toBeGreaterThanOrEqual(100)
    expect(1000 - emission.first + 1).toBeLessThanOrEqual(125)
    expect(emission.digestAt(1000)).toBe(digest(event('e1000', '1000')))
    expect(emission.digestAt(emission.first)).toBe(digest(event(`e${emission.first}`, String(emission.first))))
    expect(emission.digestAt(emission.first - 1)).toBeNull()
    expect(emission.digestAt(1)).toBe(digest(event('e1', '1')))
  })

  test('finds every place of an event', () => {
    const emission = new Emission(100)
    for (const [at, data] of ['a', 'b', 'a', 'a'].entries()) emission.push(at + 1, event(data))
    expect(emission.placesOf(digest(event('a')))).toEqual([1, 3, 4])
    expect(emission.placesOf(digest(event('c')))).toEqual([])
  })

  test('forgets what another beginning has overtaken', () => {
    const emission = filled(100, 10)
    emission.push(4, event('new', '4'))
    expect([emission.first, emission.last]).toEqual([1, 4])
    expect(emission.digestAt(4)).toBe(digest(event('new', '4')))
    expect(emission.digestAt(5)).toBeNull()
    emission.push(1, event('newest'))
    expect(emission.head).toEqual(headOf(event('newest')))
  })

  test('says where an id was given, while ids name events', () => {
    const emission = filled(100, 10)
    expect(emission.placeOfId('4')).toBe(4)
    expect(emission.placeOfId('11')).toBeNull()
    emission.push(11, event('again', '7'))
    expect(emission.placeOfId('4')).toBeNull()
  })

  test('is read from the log: gaps left out, ids where they were given', () => {
    const stored = (ordinal: number, data: string, upstreamOffset: number | null, type = 'message') => {
      return { type, name: null, data, upstreamId: upstreamOffset === null ? null : '7', upstreamOffset, ordinal }
    }
    const kept = [stored(5, 'a', 0), stored(6, 'b', 1), stored(6, '{}', 1, GAP), stored(7, 'c', 2)]
    const emission = Emission.of(kept, { ordinal: 7, head: headOf(event('first')) }, 100)
    expect([emission.first, emission.last, emission.head]).toEqual([5, 7, headOf(event('first'))])
    expect(emission.digestAt(5)).toBe(digest(event('a', '7')))
    expect(emission.digestAt(6)).toBe(digest(event('b')))
  })

  test('is not believed when it does not reach up to the cursor', () => {
    const kept = [{ type: 'message', name: null, data: 'a', upstreamId: null, upstreamOffset: null, ordinal: 3 }]
    const emission = Emission.of(kept, { ordinal: 9, head: null }, 100)
    expect([emission.first, emission.last]).toEqual([10, 9])
  })
})
