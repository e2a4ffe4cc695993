import { describe, expect, test } from 'vitest'
import { ConfigError, list, readConfig, whole } from './config.ts'
import { allVariables, commonVariables, relayVariables } from './variables.ts'

const table = { BATON_A: whole(5, 1, 10), BATON_L: list }
const complaints = (environment: Record<string, string>, options = {}) => {
  try {
    readConfig(environment, table, options)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.complaints
    throw error
  }
}

describe('the environment', () => {
  test('has defaults, and an empty variable is an unset one', () => {
    expect(readConfig({ BATON_A: '', PATH: 'x' }, table)).toEqual({ BATON_A: 5, BATON_L: [] })
    expect(readConfig({ BATON_L: ' a, b,' }, table).BATON_L).toEqual(['a', 'b'])
  })
  test('is refused with every complaint at once', () => {
    expect(complaints({ BATON_A: '11', BATON_B: '1', BATON_C: '2' })).toEqual([
      'BATON_B: no such variable',
      'BATON_C: no such variable',
      'BATON_A: must be at most 10',
    ])
    expect(complaints({ BATON_A: '1.5' })).toEqual(['BATON_A: must be a whole number'])
    expect(complaints({ BATON_A: '-1' })).toEqual(['BATON_A: must be a whole number'])
  })
  test('is refused with what does not fit together as well, unless a part of it is wrong by itself', () => {
    const relations = () => ['BATON_A: too small for BATON_B', 'BATON_L: too long']
    expect(complaints({ BATON_A: '11', BATON_C: '1' }, { relations })).toEqual([
      'BATON_C: no such variable',
      'BATON_A: must be at most 10',
      'BATON_L: too long',
    ])
  })
  test.each([
    ['BATON_PROT', '; did you mean BATON_PORT?'],
    ['BATON_RELPICAS', '; did you mean BATON_REPLICAS?'],
    ['BATON_QUIET', '; did you mean BATON_QUIET_MS?'],
    ['BATON_baton_port', ''],
    ['BATON_X', ''],
    ['BATON_COLOUR', ''],
    ['BATON_', ''],
  ])('is refused for %s, with the name that was meant where one is near', (name, hint) => {
    expect(complaints({ [name]: '1' }, { others: allVariables })).toEqual([`${name}: no such variable${hint}`])
  })
  test('may hold what other apps know', () => {
    expect(complaints({ BATON_PORT: '1' }, { others: allVariables })).toEqual([])
    expect(complaints({ BATON_SECRET_X: '1' }, { patterns: [/^BATON_SECRET_/] })).toEqual([])
  })
  test('is refused for relations that cannot hold', () => {
    expect(complaints({}, { relations: () => ['BATON_A: too near to BATON_L'] })).toEqual([
      'BATON_A: too near to BATON_L',
    ])
  })
})

test('the tables read an empty environment', () => {
  const values = readConfig({}, { ...commonVariables, ...relayVariables })
  expect(values.BATON_NATS_URL).toEqual(['nats://127.0.0.1:4222'])
  expect(values.BATON_REPLICAS).toBe(1)
  expect(() => readConfig({ BATON_NATS_URL: 'not a url' }, commonVariables)).toThrow(/BATON_NATS_URL/)
  for (const url of ['http://127.0.0.1:4222', 'nats://a,ws://b']) {
    expect(() => readConfig({ BATON_NATS_URL: url }, commonVariables)).toThrow(/BATON_NATS_URL/)
  }
  expect(readConfig({ BATON_NATS_URL: 'a:4222, tls://b' }, commonVariables).BATON_NATS_URL).toHaveLength(2)
  expect(() => readConfig({ BATON_REPLICAS: '2' }, commonVariables)).toThrow(/BATON_REPLICAS/)
})
