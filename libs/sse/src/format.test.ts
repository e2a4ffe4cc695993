import { createParser, type EventSourceMessage } from 'eventsource-parser'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoredEvent } from '@baton/core/event'
import { chunkBody, formatEvent, formatOwn, HEARTBEAT, opening, toChunk } from './format.ts'

const stored = (over: Partial<StoredEvent> = {}): StoredEvent => ({
  run: 'r1',
  sequence: 42,
  index: 7,
  epoch: 3,
  job: 'main',
  type: 'output',
  name: 'output',
  upstreamId: 'a-1',
  upstreamOffset: 0,
  ordinal: 7,
  time: '2026-01-01T00:00:00.000Z',
  data: 'hello',
  ...over,
})

function parse(text: string): EventSourceMessage[] {
  const found: EventSourceMessage[] = []
  createParser({ onEvent: (event) => found.push(event) }).feed(text)
  return found
}

describe('an event as a block', () => {
  test('has its position, its name and its data', () => {
    expect(formatEvent(stored(), 'plain')).toBe('id: 42-7\nevent: output\ndata: hello\n\n')
  })

  test('has no event line where the agent sent no name, or an empty one', () => {
    expect(formatEvent(stored({ name: null }), 'plain')).toBe('id: 42-7\ndata: hello\n\n')
    expect(formatEvent(stored({ name: '' }), 'plain')).toBe('id: 42-7\ndata: hello\n\n')
  })

  test('splits data on CR LF, CR and LF and on nothing else', () => {
    const block = formatEvent(stored({ name: null, data: 'a\r\nb\rc\nd\u2028e\n' }), 'plain')
    expect(block).toBe('id: 42-7\ndata: a\ndata: b\ndata: c\ndata: d\u2028e\ndata: \n\n')
  })

  test('carries no field of the agent’s choice, whatever its name and data', () => {
    const nasty = fc.string({
      unit: fc.constantFrom('a', ':', ' ', '\r', '\n', '\0', 'id: 9', 'data: x', '\u{2028}', 'é'),
    })
    fc.assert(
      fc.property(nasty, nasty, fc.constantFrom('plain' as const, 'envelope' as const), (name, data, format) => {
        const found = parse(formatEvent(stored({ name, data }), format))
        expect(found).toHaveLength(1)
        expect(found[0]?.id).toBe('42-7')
        const lines = data.split(/\r\n|\r|\n/).join('\n')
        if (format === 'plain') expect(found[0]?.data).toBe(lines)
        else expect(JSON.parse(found[0]?.data ?? '')).toMatchObject({ index: 7, sequence: 42, data })
      }),
    )
  })

  test('never lets an agent speak as Baton', () => {
    expect(parse(formatEvent(stored({ name: 'stream.end' }), 'plain'))[0]?.event).toBe('agent.stream.end')
  })

  test('in an envelope: no name, all that is known, and the id line the event itself had', () => {
    const one = (over: Partial<StoredEvent>) => {
      const [found] = parse(formatEvent(stored(over), 'envelope'))
      expect(found?.event).toBeUndefined()
      return JSON.parse(found?.data ?? '') as Record<string, unknown>
    }
    expect(one({})).toEqual({
      run: 'r1',
      job: 'main',
      index: 7,
      sequence: 42,
      type: 'output',
      time: '2026-01-01T00:00:00.000Z',
      id: 'a-1',
      data: 'hello',
    })
    expect(one({ upstreamOffset: 3 })['id']).toBeNull()
    expect(one({ upstreamId: '' })['id']).toBe('')
  })

  test('an envelope holds no character that some client takes for the end of a line', () => {
    expect(formatEvent(stored({ data: '\u0085\u2028\u2029' }), 'envelope')).toContain('\\u0085\\u2028\\u2029')
  })

  test('Baton’s own stored events keep their name and bare data in both formats', () => {
    const end = stored({ type: 'stream.end', name: null, job: null, data: '{"reason":"completed"}' })
    const block = 'id: 42-7\nevent: stream.end\ndata: {"reason":"completed"}\n\n'
    expect(formatEvent(end, 'plain')).toBe(block)
    expect(formatEvent(end, 'envelope')).toBe(block)
  })
})

describe('Baton’s own frames', () => {
  test('the opening lines belong to the block of the first event', () => {
    const text = opening(250.4) + formatOwn('stream.open', { position: '0-0' }, { id: '0-0' })
    expect(text).toBe('retry: 250\n: baton\nid: 0-0\nevent: stream.open\ndata: {"position":"0-0"}\n\n')
    expect(parse(text)).toEqual([{ id: '0-0', event: 'stream.open', data: '{"position":"0-0"}' }])
  })

  test('a retry is never beyond what timers can hold', () => {
    expect(opening(1e15)).toContain('retry: 2147483647\n')
    expect(opening(-5)).toContain('retry: 0\n')
  })

  test('without an id a client keeps the one it has', () => {
    expect(formatOwn('stream.bye', { reason: 'drain' }, { retryMs: 300 })).toBe(
      'retry: 300\nevent: stream.bye\ndata: {"reason":"drain"}\n\n',
    )
  })

  test('a heartbeat is no event', () => {
    expect(parse(HEARTBEAT)).toEqual([])
  })
})

describe('a chunk', () => {
  test('is the length in hex, the bytes, and an end of line; its body is the block again', () => {
    expect(toChunk('data: é\n\n').toString('utf8')).toBe('a\r\ndata: é\n\n\r\n')
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 9000 }), (text) => {
        const block = text.toWellFormed()
        const chunk = toChunk(block)
        expect(chunkBody(chunk).toString('utf8')).toBe(block)
        const size = chunk.subarray(0, chunk.indexOf('\r\n')).toString('latin1')
        expect(Number.parseInt(size, 16)).toBe(Buffer.byteLength(block))
      }),
    )
  })
})
