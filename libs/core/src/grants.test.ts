import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ALL_GRANTS, allows, grantOfTopic, NO_GRANTS, parseGrants } from './grants.ts'

describe('a grant covers', () => {
  test.each([
    ['run:*', 'run:r1', true],
    ['run:>', 'run:r1', true],
    ['run:*', 'run:*', true],
    ['run:r1', 'run:r1', true],
    ['run:r1', 'run:r2', false],
    ['run:r1', 'run:*', false],
    ['topic:orders.>', 'topic:orders.1.2', true],
    ['topic:orders.>', 'topic:orders.>', true],
    ['topic:orders.>', 'topic:orders.*', true],
    ['topic:orders.>', 'topic:orders', false],
    ['topic:orders.*', 'topic:orders.1', true],
    ['topic:orders.*', 'topic:orders.1.2', false],
    ['topic:orders.*', 'topic:orders.>', false],
    ['topic:orders.1', 'topic:orders.*', false],
    ['topic:*.42', 'topic:labels.42', true],
    ['topic:*.42', 'topic:>', false],
    ['topic:*', 'topic:>', false],
    ['topic:>', 'topic:>', true],
    ['topic:>', 'run:r1', false],
    ['run:*', 'topic:r1', false],
    ['run:*', 'run:a.b', false],
    ['run:*', 'r1', false],
  ])('%s, asked for %s: %s', (grant, wanted, expected) => expect(allows([grant], wanted)).toBe(expected))

  test('only alone: several narrow grants make no wildcard', () => {
    expect(allows(['topic:orders.1', 'topic:orders.2'], 'topic:orders.*')).toBe(false)
    expect(allows(['topic:*', 'topic:*.*', 'topic:*.*.>'], 'topic:>')).toBe(false)
  })
})

const token = fc.constantFrom('a', 'b', '*')
const filter = fc
  .tuple(fc.array(token, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([tokens, open]) => [...tokens, ...(open ? ['>'] : [])].join('.'))
const name = fc.constantFrom('a', 'b', 'c')
const topic = fc.array(name, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.'))

/** What NATS does with a filter, as an expression. */
const takes = (text: string, subject: string): boolean =>
  new RegExp(`^${text.replaceAll('.', '\\.').replaceAll('*', '[^.]+').replace(/>$/, '.+')}$`).test(subject)

test('whoever may follow a filter may follow each topic it takes, and a topic is granted as NATS matches it', () => {
  fc.assert(
    fc.property(fc.array(filter, { maxLength: 4 }), filter, topic, (granted, asked, one) => {
      const grants = granted.map(grantOfTopic)
      expect(allows(grants, grantOfTopic(one))).toBe(granted.some((grant) => takes(grant, one)))
      if (allows(grants, grantOfTopic(asked)) && takes(asked, one)) {
        expect(allows(grants, grantOfTopic(one))).toBe(true)
      }
    }),
    { numRuns: 2000 },
  )
})

test('no token of grants covers what is not a run or a topic, and nothing covers what was not granted', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(allows(NO_GRANTS.subscribe, text)).toBe(false)
      if (allows(ALL_GRANTS.subscribe, text)) expect(text).toMatch(/^(run:[\w*>-]{1,64}|topic:[\w*>.-]+)$/)
    }),
  )
})

describe('the claim', () => {
  test('absent is no grant, and a right not named is none', () => {
    expect(parseGrants(undefined)).toEqual({ ok: true, value: NO_GRANTS })
    const found = parseGrants({ subscribe: ['run:*', 'topic:orders.>'] })
    expect(found).toEqual({ ok: true, value: { ...NO_GRANTS, subscribe: ['run:*', 'topic:orders.>'] } })
  })

  test('may name rights that only a later version knows', () => {
    expect(parseGrants({ publish: ['topic:a'], prune: ['everything'] })).toEqual({
      ok: true,
      value: { ...NO_GRANTS, publish: ['topic:a'] },
    })
  })

  test.each([
    null,
    'run:*',
    ['run:*'],
    { subscribe: 'run:*' },
    { subscribe: ['run:'] },
    { subscribe: ['*'] },
    { subscribe: ['run:team-*'] },
    { subscribe: ['topic:orders.>.x'] },
    { subscribe: ['topic:a b'] },
    { subscribe: ['queue:x'] },
    { subscribe: [1] },
    { manage: ['run:*', 'run:a.b'] },
    { subscribe: Array.from({ length: 251 }, (_, at) => `run:r${at}`) },
  ])('%j is refused whole', (value) => expect(parseGrants(value)).toMatchObject({ ok: false }))
})
