import { describe, expect, test } from 'vitest'
import { agentName, DEFAULT_TERMINAL_TYPES, eventType, isKeepalive, terminal } from './event.ts'
import { isRunId, isTopic, isTopicFilter } from './ids.ts'
import { formatPosition, parsePosition } from './position.ts'

test('the type is the name, else the type field of JSON data, else message', () => {
  expect(eventType('output', '{"type":"x"}')).toBe('output')
  expect(eventType(null, '{"type":"x"}')).toBe('x')
  expect(eventType('', ' {"a":1,"type":"x"}')).toBe('x')
  for (const data of ['', '[]', '{"type":1}', '{"type":""}', '{"type":"x"', '"type"', '{"a":{"type":"x"}}', 'null']) {
    expect(eventType(null, data)).toBe('message')
  }
})

test('names of ours are moved out of the way, however they were found', () => {
  expect(agentName('stream.end')).toBe('agent.stream.end')
  expect(eventType(null, '{"type":"stream.end"}')).toBe('agent.stream.end')
  expect(agentName('streaming')).toBe('streaming')
})

test('keepalives are known by name only', () => {
  expect(['ping', 'keepalive', 'heartbeat'].every(isKeepalive)).toBe(true)
  expect([null, 'pong', 'Ping'].some(isKeepalive)).toBe(false)
})

test('terminal types, given, replace the default; [DONE] always ends', () => {
  expect(terminal('done', '{}', DEFAULT_TERMINAL_TYPES)).toBe('completed')
  expect(terminal('failed', '{}', DEFAULT_TERMINAL_TYPES)).toBe('failed')
  expect(terminal('cancelled', '{}', DEFAULT_TERMINAL_TYPES)).toBe('cancelled')
  expect(terminal('done', '{}', ['fin'])).toBeNull()
  expect(terminal('fin', '{}', ['fin'])).toBe('completed')
  expect(terminal('message', '[DONE]', ['fin'])).toBe('completed')
})

describe('a position', () => {
  test('survives being written and read', () => {
    for (const position of [
      { sequence: 0, mark: 0 },
      { sequence: 12, mark: 1_796_016_214_971 },
    ]) {
      expect(parsePosition(formatPosition(position))).toEqual(position)
    }
  })
  test.each([
    '',
    '1',
    '-1',
    '1-',
    '01-1',
    '1-01',
    '1-1-1',
    ' 1-1',
    '1-1 ',
    '99999999999999999-1',
    '1-1\n',
    'a-b',
    '1.5-1',
  ])('%j is not one', (text) => expect(parsePosition(text)).toBeNull())
})

test('ids are what NATS subjects take', () => {
  expect(isRunId('a_B-9')).toBe(true)
  for (const id of ['', 'a.b', 'a b', '*', '>', 'é', 'events', 'x'.repeat(65)]) expect(isRunId(id)).toBe(false)
  expect(isTopic('orders.eu.42')).toBe(true)
  for (const topic of ['stream.x', 'a..b', 'a.*', '.a', Array(9).fill('a').join('.')])
    expect(isTopic(topic)).toBe(false)
  expect(isTopicFilter('orders.*.>')).toBe(true)
  for (const filter of ['a.>.b', 'stream.>', 'a*']) expect(isTopicFilter(filter)).toBe(false)
})
