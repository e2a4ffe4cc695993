import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSseParser, type SseItem } from './parse.ts'

const NO_LIMIT = 1 << 20

function parse(bytes: Uint8Array, chunk: number, maxEventBytes = NO_LIMIT): SseItem[] {
  const parser = createSseParser({ maxEventBytes })
  const items: SseItem[] = []
  for (let at = 0; at < bytes.length; at += chunk) items.push(...parser.push(bytes.subarray(at, at + chunk)))
  return items
}

/** The algorithm of the standard over a whole text, as plainly as it can be written. */
function reference(bytes: Uint8Array, maxEventBytes = NO_LIMIT): SseItem[] {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes).replace(/^\uFEFF/, '')
  const lines = text.split(/\r\n|\r|\n/)
  // What follows the last line end is unfinished.
  lines.pop()
  const items: SseItem[] = []
  let block: { name: string; data: string[]; id: string | null } = { name: '', data: [], id: null }
  for (const line of lines) {
    if (line === '') {
      const name = block.name === '' ? null : block.name
      const data = block.data.join('\n')
      if (block.data.length === 0) {
        if (block.id !== null) items.push({ kind: 'id', id: block.id })
      } else if (Buffer.byteLength(data) > maxEventBytes) items.push({ kind: 'too-large', name, id: block.id })
      else items.push({ kind: 'event', name, data, id: block.id })
      block = { name: '', data: [], id: null }
      continue
    }
    const colon = line.indexOf(':')
    if (colon === 0) {
      items.push({ kind: 'comment' })
      continue
    }
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') block.data.push(value)
    if (field === 'event') block.name = value
    if (field === 'id' && !value.includes('\0')) block.id = value
    if (field === 'retry' && /^\d+$/.test(value)) items.push({ kind: 'retry', ms: Number(value) })
  }
  return items
}

const event = (data: string, rest: { name?: string; id?: string } = {}): SseItem => ({
  kind: 'event',
  name: rest.name ?? null,
  data,
  id: rest.id ?? null,
})
const id = (id: string): SseItem => ({ kind: 'id', id })
const comment: SseItem = { kind: 'comment' }
const text = (...datas: string[]): SseItem[] => datas.map((data) => event(data))

/** Wire and events, after the web platform tests of the same names (eventsource/*.any.js). */
const vectors: readonly [name: string, wire: string, items: readonly SseItem[]][] = [
  ['format-bom', '\uFEFFdata:1\n\n\uFEFFdata:2\n\ndata:3\n\n', text('1', '3')],
  ['format-bom-2', '\uFEFF\uFEFFdata:1\n\ndata:2\n\ndata:3\n\n', text('2', '3')],
  ['bytes that look like a byte order mark', 'ï»¿data:1\n\ndata:2\n\n', text('2')],
  [
    'format-comments',
    `data:1\r:\0\n:\r\ndata:2\n:${'x'.repeat(2048)}\rdata:3\n:data:fail\r:${'x'.repeat(2048)}\ndata:4\n\n`,
    [comment, comment, comment, comment, comment, event('1\n2\n3\n4')],
  ],
  [
    'format-data-before-final-empty-line',
    'retry:1000\ndata:test1\n\nid:test\ndata:test2',
    [{ kind: 'retry', ms: 1000 }, ...text('test1')],
  ],
  ['an event ended by one line end only', 'id:1\ndata:a\n\nid:2\ndata:b\n', [event('a', { id: '1' })]],
  ['format-field-data', 'data:\n\ndata\ndata\n\ndata:test\n\n', text('', '\n', 'test')],
  ['format-field-event', 'event:test\ndata:x\n\ndata:x\n\n', [event('x', { name: 'test' }), event('x')]],
  ['format-field-event-empty', 'event: \ndata:data\n\n', text('data')],
  ['an empty name resets an earlier one', 'event: a\nevent:\ndata:x\n\n', text('x')],
  ['format-field-id', 'data: 1\nid: 1\n\ndata: 2\n\n', [event('1', { id: '1' }), event('2')]],
  ['format-field-id-2', 'id: …\ndata: hello\n\ndata: 2\n\n', [event('hello', { id: '…' }), event('2')]],
  [
    'format-field-id-3',
    'id: 1\ndata: a\n\nid:\ndata: b\n\nid: 1\ndata: c\n\nid\ndata: d\n\n',
    [event('a', { id: '1' }), event('b', { id: '' }), event('c', { id: '1' }), event('d', { id: '' })],
  ],
  ['format-field-id-null', 'id: \0\0\ndata: a\n\nid: x\0\ndata: b\n\nid: \0x\ndata: c\n\n', text('a', 'b', 'c')],
  ['an id with NUL leaves the one before it', 'id: 1\nid: x\0\ndata: a\n\n', [event('a', { id: '1' })]],
  [
    'format-field-parsing',
    'data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n',
    text('\0\n 2\n1\n3\n\n4'),
  ],
  ['format-field-retry', 'retry:03000\ndata:x\n\n', [{ kind: 'retry', ms: 3000 }, event('x')]],
  [
    'format-field-retry-bogus',
    'retry:3000\nretry:1000x\nretry:+1\nretry:1.5\ndata:x\n\n',
    [{ kind: 'retry', ms: 3000 }, event('x')],
  ],
  ['format-field-retry-empty', 'retry\ndata:test\n\n', text('test')],
  ['a retry counts at its line', 'retry: 5\n\n', [{ kind: 'retry', ms: 5 }]],
  [
    'format-field-unknown',
    'data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n',
    [comment, event('test\n\ntest')],
  ],
  ['format-leading-space', 'data:\ttest\rdata: \ndata:test\n\n', text('\ttest\n\ntest')],
  ['format-newlines', 'data:test\r\ndata\ndata:test\r\n\r\n', text('test\n\ntest')],
  ['format-null-character', 'data:\0\n\n\n\n', text('\0')],
  ['format-utf-8', 'data:ok…\n\n', text('ok…')],
  ['CR alone', 'id:1\rdata:a\r\rdata:b\r\r', [event('a', { id: '1' }), event('b')]],
  ['CRLF', 'data:a\r\ndata:b\r\n\r\ndata:c\r\n\r\n', text('a\nb', 'c')],
  ['other separators are data', 'data:a\u2028b\u2029c\u0085d\ve\f\n\n', text('a\u2028b\u2029c\u0085d\ve\f')],
  ['blanks inside and behind stay', 'data:  word \n\n', text(' word ')],
  ['an id without data moves', 'id: 7\n\ndata: x\n\n', [id('7'), event('x')]],
  ['an id reset without data moves', 'id\n\n', [id('')]],
  ['four-byte characters', 'data: 北😀€豆腐\n\n', text('北😀€豆腐')],
  ['nothing but blank lines', '\n\n\r\n\r\r', []],
]

describe('the wire format', () => {
  for (const [name, wire, items] of vectors) {
    test.each([1, 2, 3, 7, wire.length * 4])(`${name}, in pieces of %i bytes`, (chunk) => {
      const bytes = Buffer.from(wire)
      expect(parse(bytes, chunk)).toEqual(items)
      expect(reference(bytes)).toEqual(items)
    })
  }

  test('bytes that are not UTF-8 become U+FFFD and end nothing', () => {
    const bytes = Buffer.concat([
      Buffer.from('data: a'),
      Buffer.from([0xff, 0xe5, 0x8c]),
      Buffer.from('\n\ndata: b\n\n'),
    ])
    for (const chunk of [1, 2, 100]) expect(parse(bytes, chunk)).toEqual(text('a\uFFFD\uFFFD', 'b'))
  })
})

const field = fc.oneof(
  fc.constantFrom(
    'data',
    'data:',
    'event',
    'event:',
    'id',
    'id:',
    'retry: 10',
    'x: y',
    ':',
    ': ping',
    '\uFEFFdata: q',
    'dat',
    'i',
    'data:\0',
  ),
  fc
    .record({
      name: fc.constantFrom('data: ', 'data:', 'event: ', 'id: ', 'id:', ': '),
      value: fc.string({ unit: 'binary', maxLength: 24 }),
    })
    .map(({ name, value }) => name + value),
)
const wire = fc
  .array(
    fc.tuple(fc.oneof(field, fc.constant('')), fc.constantFrom('\n', '\r\n', '\r', '\n\n', '\r\r', '\r\n\r\n', '')),
    { maxLength: 40 },
  )
  .map((lines) => Buffer.from(lines.map(([line, end]) => line + end).join('')))

test('any cutting of any bytes gives the events of the standard', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        wire,
        fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      ),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 }),
      fc.constantFrom(8, 20, NO_LIMIT),
      (bytes, sizes, limit) => {
        const parser = createSseParser({ maxEventBytes: limit })
        const items: SseItem[] = []
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const size = sizes[turn % sizes.length] ?? 1
          items.push(...parser.push(bytes.subarray(at, at + size)))
          at += size
        }
        expect(items).toEqual(reference(bytes, limit))
      },
    ),
    { numRuns: 3000 },
  )
})

describe('an event over the limit', () => {
  const big = 'x'.repeat(101)

  test.each([1, 5, 64, 10_000])('is skipped whole, with its name and id, in pieces of %i bytes', (chunk) => {
    const bytes = Buffer.from(`data: a\n\nevent: n\nid: 4\ndata: ${big}\n\ndata: b\n\n`)
    expect(parse(bytes, chunk, 100)).toEqual([event('a'), { kind: 'too-large', name: 'n', id: '4' }, event('b')])
  })

  test.each([1, 5, 64, 10_000])(
    'counts the lines together, and the id may come last, in pieces of %i bytes',
    (chunk) => {
      const bytes = Buffer.from(`${'data: 0123456789\r\n'.repeat(10)}id: 5\r\n\r\ndata: b\r\n\r\n`)
      expect(parse(bytes, chunk, 100)).toEqual([{ kind: 'too-large', name: null, id: '5' }, event('b')])
      expect(parse(bytes, chunk, 109)).toEqual([
        event(Array(10).fill('0123456789').join('\n'), { id: '5' }),
        event('b'),
      ])
    },
  )

  test('is measured in bytes of UTF-8', () => {
    expect(parse(Buffer.from(`data: ${'€'.repeat(33)}\n\n`), 10, 99)).toEqual(text('€'.repeat(33)))
    expect(parse(Buffer.from(`data: ${'€'.repeat(33)}\n\n`), 10, 98)).toEqual([
      { kind: 'too-large', name: null, id: null },
    ])
  })

  test('is none while it is unfinished', () => {
    expect(parse(Buffer.from(`data: ${big}\nid: 9\n`), 10, 100)).toEqual([])
  })

  test('a long comment or unknown field makes no event too large', () => {
    const long = 'y'.repeat(200_000)
    for (const chunk of [1000, 1 << 20]) {
      expect(parse(Buffer.from(`:${long}\nfoo: ${long}\ndata: a\n\n`), chunk, 100)).toEqual([comment, event('a')])
    }
  })

  test('an endless id or name is cut, not gathered', () => {
    const items = parse(Buffer.from(`id: ${'i'.repeat(200_000)}\ndata: a\n\n`), 1000, 100)
    expect(items).toHaveLength(1)
    expect(items[0]).toMatchObject({ kind: 'event', data: 'a' })
    expect(items[0]?.kind === 'event' && items[0].id?.length).toBeLessThan(5000)
  })
})

describe('memory', () => {
  // Without a collection first a busy machine would have this measure garbage.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heap = (): number => {
    collect()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const MiB = 1 << 20

  test.each([
    ['a line without an end', 200, Buffer.from('x'.repeat(65_536)), ''],
    ['a data line without an end', 200, Buffer.from('x'.repeat(65_536)), 'data: '],
    ['a comment without an end', 200, Buffer.from('x'.repeat(65_536)), ':'],
    ['data lines without a blank one', 60, Buffer.from('data:x\n'.repeat(9000)), ''],
    ['empty data lines without a blank one', 60, Buffer.from('data\n'.repeat(13_000)), ''],
  ])(
    'stays bounded under %s, %i MiB of it',
    (_, size, chunk, start) => {
      const parser = createSseParser({ maxEventBytes: MiB })
      parser.push(Buffer.from(start))
      const before = heap()
      const grown: number[] = []
      for (let sent = 0; sent < size * MiB; sent += chunk.length) {
        parser.push(chunk)
        if (sent % (4 * MiB) < chunk.length) grown.push(heap() - before)
      }
      const half = grown.length / 2
      expect(Math.max(...grown)).toBeLessThan(64 * MiB)
      expect(Math.max(...grown.slice(half)) - Math.max(...grown.slice(0, half))).toBeLessThan(MiB)
      expect(parser.push(Buffer.from('\n\ndata: next\n\n')).at(-1)).toEqual(event('next'))
    },
    120_000,
  )
})
