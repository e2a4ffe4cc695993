import { expect, test } from 'vitest'
import { StrictSse } from './strict-sse.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

test('frames come whole from any slices', () => {
  const text = 'retry: 300\n: ok\nid: 0-0\nevent: stream.open\ndata: {}\n\n: beat\n\nid: 4-1\ndata: a\ndata: ü😀\n\n'
  const whole = new StrictSse().push(bytes(text))
  const sliced = new StrictSse()
  const frames = [...bytes(text)].flatMap((byte) => sliced.push(Uint8Array.of(byte)))
  expect(frames).toEqual(whole)
  expect(frames.map((frame) => frame.data)).toEqual(['{}', null, 'a\nü😀'])
  expect(frames[0]).toMatchObject({ retryMs: 300, comments: ['ok'], id: '0-0', event: 'stream.open' })
})

test.each([
  ['a carriage return', 'data: a\r\n\n', /a CR/],
  ['an unknown field', 'sequence: 4\n\n', /unexpected line/],
  ['a second id', 'id: 1\nid: 2\n\n', /unexpected line/],
  ['an empty block', '\n', /empty block/],
])('%s is refused', (_, text, words) => {
  expect(() => new StrictSse().push(bytes(text))).toThrow(words)
})

test('what follows the last whole frame is kept apart', () => {
  const parser = new StrictSse()
  parser.push(bytes('data: a\n\ndata: b\n'))
  expect(parser.unfinished).toBe('data: b')
})
