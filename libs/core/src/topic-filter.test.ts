import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { collide, covers, findCollision, reduceFilters } from './topic-filter.ts'

const token = fc.constantFrom('a', 'b', '*')
const filter = fc
  .tuple(fc.array(token, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([tokens, open]) => [...tokens, ...(open ? ['>'] : [])].join('.'))
const topics = ['a', 'b'].flatMap((one) => [
  one,
  ...['a', 'b', 'c'].flatMap((two) => [
    `${one}.${two}`,
    ...['a', 'b', 'c'].flatMap((three) => [
      `${one}.${two}.${three}`,
      ...['a', 'b', 'c'].flatMap((four) => [`${one}.${two}.${three}.${four}`]),
    ]),
  ]),
])

/** What NATS does with a filter, as an expression. */
const takes = (text: string, topic: string): boolean =>
  new RegExp(`^${text.replaceAll('.', '\\.').replaceAll('*', '[^.]+').replace(/>$/, '.+')}$`).test(topic)

test.each([
  ['orders.*', 'orders.1', true],
  ['orders.>', 'orders.1.2', true],
  ['orders.>', 'orders', false],
  ['orders.*', 'orders.>', false],
  ['>', 'orders.>', true],
  ['*', '>', false],
])('%s covers %s: %s', (wide, narrow, expected) => expect(covers(wide, narrow)).toBe(expected))

test('what covers another takes every topic of it, and what collides shares one', () => {
  fc.assert(
    fc.property(filter, filter, (one, other) => {
      const shared = topics.filter((topic) => takes(one, topic) && takes(other, topic))
      if (covers(one, other)) expect(shared).toEqual(topics.filter((topic) => takes(other, topic)))
      if (shared.length > 0) expect(collide(one, other)).toBe(true)
      if (!collide(one, other)) expect(shared).toEqual([])
    }),
  )
})

test('equal sets are one set, whatever their order, and no filter in it is another’s', () => {
  expect(reduceFilters(['orders.2', 'orders.*', 'labels.42', 'orders.1', 'labels.42'])).toEqual([
    'labels.42',
    'orders.*',
  ])
  expect(findCollision(['labels.42', 'orders.*'])).toBeNull()
  expect(findCollision(['*.42', 'labels.*'])).toEqual(['*.42', 'labels.*'])
})
