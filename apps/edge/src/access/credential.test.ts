import { describe, expect, test } from 'vitest'
import { readCredential } from './credential.ts'

const header = (...authorization: string[]) => ({ authorization })
const cookies = (...cookie: string[]) => ({ cookie })

describe('a token', () => {
  test('is in the header, or in the cookie', () => {
    expect(readCredential({}, [])).toEqual({ kind: 'none' })
    expect(readCredential(header('Bearer a.b.c'), [])).toEqual({ kind: 'token', token: 'a.b.c', from: 'header' })
    expect(readCredential(header('bEARER  a.b.c '), [])).toEqual({ kind: 'token', token: 'a.b.c', from: 'header' })
    expect(readCredential(cookies('x=1; baton=a.b.c;y=2'), [])).toEqual({
      kind: 'token',
      token: 'a.b.c',
      from: 'cookie',
    })
    expect(readCredential(cookies('baton=a=b'), [])).toMatchObject({ token: 'a=b' })
    expect(readCredential({ ...header('Bearer a'), ...cookies('baton=a') }, [])).toMatchObject({ token: 'a' })
  })

  test('is not in a cookie of another name, nor in one that was taken back', () => {
    for (const cookie of ['baton2=a', 'xbaton=a', 'Baton=a', 'baton=', 'baton', ''])
      expect(readCredential(cookies(cookie), [])).toEqual({ kind: 'none' })
  })

  test.each([
    ['two headers', header('Bearer a', 'Bearer b')],
    ['two in one', header('Bearer a, Bearer b')],
    ['header and cookie', { ...header('Bearer a'), ...cookies('baton=b') }],
    ['two cookies', cookies('baton=a; baton=b')],
    ['two cookie headers', cookies('baton=a', 'baton=b')],
  ])('that is said twice and not the same, by %s, is refused', (_, headers) => {
    expect(() => readCredential(headers, [])).toThrow(/disagree|must be/)
  })

  test.each(['Basic a', 'Bearer', 'Bearer ', 'a.b.c', 'Bearer a b', ''])('"%s" is none', (value) => {
    expect(() => readCredential(header(value), [])).toThrow('must be: Bearer')
  })
})

describe('a ticket', () => {
  test('goes before a cookie, which a browser sends unasked, and with nothing that was meant', () => {
    expect(readCredential(cookies('baton=a'), ['t'])).toEqual({ kind: 'ticket', ticket: 't' })
    expect(readCredential({}, ['t', 't'])).toEqual({ kind: 'ticket', ticket: 't' })
    expect(() => readCredential({}, ['t', 'u'])).toThrow('several tickets disagree')
    expect(() => readCredential(header('Bearer a'), ['t'])).toThrow('one of them')
  })
})
