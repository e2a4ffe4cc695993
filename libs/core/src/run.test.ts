import { describe, expect, test } from 'vitest'
import { formatRunRecord, parseRegistration, parseRunRecord, sameRegistration } from './run.ts'

const reason = (body: unknown) => {
  const found = parseRegistration('r1', body)
  return found.ok ? null : found.reason
}
const value = (body: unknown) => {
  const found = parseRegistration('r1', body)
  if (!found.ok) throw new Error(found.reason)
  return found.value
}

describe('a registration', () => {
  test('of one agent may carry the job itself', () => {
    expect(value({ url: 'http://a/1' }).jobs).toEqual([
      { job: 'main', url: 'http://a/1', resume: 'auto', headers: {}, secret: null, secretHeader: null, cancel: null },
    ])
  })
  test('names the jobs that have no name', () => {
    const jobs = [{ url: 'http://a/1' }, { url: 'http://a/2' }, { job: 'x', url: 'http://a/3' }]
    expect(value({ jobs }).jobs.map(({ job }) => job)).toEqual(['main', 'job-2', 'x'])
  })
  test.each([
    [{}, /url/],
    [{ url: 'ftp://a/' }, /http/],
    [{ url: 'nonsense' }, /http/],
    [{ url: 'http://me:word@a/' }, /use secret/],
    [{ url: 'http://a/', cancel: 'http://:word@a/' }, /cancel: .*use secret/],
    [{ url: 'http://a/', lables: {} }, /lables/],
    [{ url: 'http://a/', headers: { Authorization: 'x' } }, /use secret/],
    [{ url: 'http://a/', headers: { 'X-Api-Key': 'x' } }, /use secret/],
    [{ url: 'http://a/', headers: { cookie: 'x' } }, /use secret/],
    [{ url: 'http://a/', headers: { 'X-Ok': 'a\r\nb: c' } }, /header value/],
    [{ url: 'http://a/', resume: 'maybe' }, /resume/],
    [{ jobs: [] }, /jobs/],
    [
      {
        jobs: [
          { job: 'a', url: 'http://a/' },
          { job: 'a', url: 'http://a/' },
        ],
      },
      /same name/,
    ],
    [{ jobs: [{ url: 'http://a/' }, { job: 'main', url: 'http://a/' }] }, /same name/],
    [{ run: 'other', url: 'http://a/' }, /expected r1/],
    [{ url: 'http://a/', cancel: true }, /cancel/],
    ['text', /JSON object/],
    [null, /JSON object/],
    [[], /JSON object/],
  ])('%j is refused with a reason', (body, text) => expect(reason(body)).toMatch(text))
  test('the id is checked', () => {
    expect(parseRegistration('events', { url: 'http://a/' }).ok).toBe(false)
    expect(parseRegistration('a.b', { url: 'http://a/' }).ok).toBe(false)
    expect(parseRegistration('x'.repeat(65), { url: 'http://a/' }).ok).toBe(false)
  })
})

describe('a record in KV runs', () => {
  test('survives being written and read', () => {
    const spec = value({
      jobs: [{ job: 'a', url: 'http://a/', headers: { x: '1' }, secret: 'KEY', cancel: 'http://a/stop' }],
      labels: { team: 'x' },
      terminalTypes: ['fin'],
      stallMs: 5,
    })
    expect(parseRunRecord('r1', formatRunRecord(spec))).toEqual({ ok: true, value: spec })
    const cancelled = { ...spec, cancel: true }
    expect(parseRunRecord('r1', formatRunRecord(cancelled))).toEqual({ ok: true, value: cancelled })
  })
  test('cancel as a flag is the wish, as a text beside url the agent’s cancel URL', () => {
    expect(parseRunRecord('r1', '{"url":"http://a/","cancel":true}')).toMatchObject({ value: { cancel: true } })
    expect(parseRunRecord('r1', '{"url":"http://a/","cancel":"http://a/x"}')).toMatchObject({
      value: { cancel: false, jobs: [{ cancel: 'http://a/x' }] },
    })
  })
  test('of nothing but the flag is the wish too: whoever is in a hurry need not repeat what was wanted', () => {
    for (const text of ['{"cancel":true}', '{"run":"r1","cancel":true}']) {
      expect(parseRunRecord('r1', text)).toMatchObject({ ok: true, value: { run: 'r1', cancel: true, jobs: [] } })
    }
    for (const text of [
      '{"cancel":false}',
      '{"run":"r2","cancel":true}',
      '{"jobs":[],"cancel":true}',
      '{"x":1,"cancel":true}',
    ]) {
      expect(parseRunRecord('r1', text).ok).toBe(false)
    }
    expect(parseRunRecord('events', '{"cancel":true}').ok).toBe(false)
  })
  test('that is not JSON says so', () =>
    expect(parseRunRecord('r1', 'nope')).toEqual({ ok: false, reason: 'is not JSON' }))
})

test('the order of fields does not make another registration', () => {
  const one = value({ url: 'http://a/', labels: { a: '1', b: '2' } })
  expect(sameRegistration(one, value({ labels: { b: '2', a: '1' }, url: 'http://a/' }))).toBe(true)
  expect(sameRegistration(one, value({ url: 'http://b/', labels: { a: '1', b: '2' } }))).toBe(false)
  expect(sameRegistration(one, { ...one, cancel: true })).toBe(true)
})
