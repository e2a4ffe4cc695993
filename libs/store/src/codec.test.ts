import { headers } from '@nats-io/nats-core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeEvent, decodeHeader, encodeHeader, eventHeaders } from './codec.ts'
import { RawHeaders } from './raw-headers.ts'

test('any text survives as a header', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const map = headers()
      map.set('X', encodeHeader(text))
      expect(decodeHeader(map.get('X'))).toBe(text.toWellFormed())
    }),
  )
})

test.each([
  ['', ''],
  [' a b ', '%20a b%20'],
  ['50%', '50%25'],
  ['a\r\nb', 'a%0D%0Ab'],
  ['é', '%C3%A9'],
])('%j is written %j', (text, encoded) => expect(encodeHeader(text)).toBe(encoded))

test('an event survives, absences included', () => {
  const event = {
    index: 3,
    epoch: 9,
    job: 'main',
    type: 'output',
    name: null,
    upstreamId: '',
    upstreamOffset: 0,
    ordinal: 2,
    time: '2026-01-01T00:00:00.000Z',
    data: 'é\n',
  }
  const data = new TextEncoder().encode(event.data)
  const found = decodeEvent('r1', 17, { data, headers: eventHeaders(event) })
  expect(found).toEqual({ ...event, run: 'r1', sequence: 17 })
  const bare = { ...event, job: null, upstreamId: null, upstreamOffset: null, ordinal: null }
  expect(decodeEvent('r1', 17, { data, headers: eventHeaders(bare) })).toEqual({ ...bare, run: 'r1', sequence: 17 })
})

test('what is not an event of ours is none', () => {
  expect(decodeEvent('r1', 1, { data: new Uint8Array() })).toBeNull()
  const map = headers()
  map.set('Baton-Index', 'x')
  expect(decodeEvent('r1', 1, { data: new Uint8Array(), headers: map })).toBeNull()
})

test('headers are found in the bytes they came in', () => {
  const map = headers()
  map.set('Baton-Index', '7')
  map.set('Baton-Upstream-Id', '')
  map.set('Baton-Type', 'a:b')
  const raw = new RawHeaders(new TextDecoder().decode((map as unknown as { encode(): Uint8Array }).encode()))
  expect(raw.find('Baton-Index')).toBe('7')
  expect(raw.find('Baton-Upstream-Id')).toBe('')
  expect(raw.find('Baton-Type')).toBe('a:b')
  expect(raw.find('Baton')).toBeNull()
  expect(raw.find('Index')).toBeNull()
  expect(raw.status).toBe(0)
  expect(new RawHeaders('NATS/1.0 204 EOB\r\n\r\n').status).toBe(204)
})
