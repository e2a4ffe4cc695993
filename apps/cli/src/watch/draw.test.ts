import { describe, expect, test } from 'vitest'
import { ageText, draw, placesFor, type Picture } from './draw.ts'
import type { Row } from './row.ts'

const row = (change: Partial<Row> = {}): Row => ({
  run: 'demo-t4k2w1-1',
  state: 'running',
  owner: { relay: 'relay-1', boot: 'b1', epoch: 12 },
  head: 345,
  livenessAgeMs: 400,
  progressAgeMs: 125_000,
  verdict: 'quiet',
  takeovers: 2,
  end: null,
  ...change,
})

const picture = (change: Partial<Picture> = {}): Picture => ({
  time: '08:31:02',
  rows: [row()],
  hidden: 0,
  relays: 2,
  watchdogs: 1,
  lostForMs: null,
  changes: [],
  ...change,
})

const plain = (_tone: string, text: string) => text

describe('a screen', () => {
  test('shows a run in one line', () => {
    const [head, headings, line] = draw(picture(), { columns: 80, rows: 24 }, plain)
    expect(head).toBe('08:31:02  1 run, 2 relays, 1 watchdog')
    expect(headings).toBe('RUN            STATE    OWNER    EPOCH  HEAD  BYTE  WORK  VERDICT  TAKEN')
    expect(line).toBe('demo-t4k2w1-1  running  relay-1     12   345    0s    2m  quiet        2')
  })

  test('is never wider or higher than the terminal, whatever stands in it', () => {
    const long = row({
      run: 'r'.repeat(64),
      owner: { relay: `${'relay'.repeat(20)}\u001b[2J`, boot: 'b', epoch: 123_456_789 },
      head: 9_999_999,
      verdict: 'disconnected',
    })
    const rows = Array.from({ length: placesFor(24) }, () => long)
    const changes = Array.from({ length: 50 }, (_, at) => `${at} ${'change '.repeat(30)}`)
    const lines = draw(picture({ rows, hidden: 900, changes, lostForMs: 5000 }), { columns: 80, rows: 24 }, plain)
    expect(lines.length).toBeLessThan(24)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
    expect(lines.join('\n')).not.toContain('\u001b')
    expect(lines.at(-1)).toMatch(/^49 /)
    expect(lines[0]).toContain('NATS does not answer for 5s')
  })

  test('says how a run ended, who judges, and what is missing', () => {
    const ended = row({ state: 'ended', owner: null, verdict: 'ended', end: { reason: 'failed', detail: null } })
    const lines = draw(picture({ rows: [ended], watchdogs: 0, relays: 0 }), { columns: 80, rows: 24 }, plain)
    expect(lines[0]).toContain('no relays, no watchdogs (judged here)')
    expect(lines[2]).toMatch(/ended {2,}- .*failed/)
  })
})

test.each([
  [null, '-'],
  [0, '0s'],
  [99_999, '99s'],
  [100_000, '1m'],
  [6_000_000, '1h'],
  [864_000_000, '10d'],
])('an age of %j is %s', (ms, text) => expect(ageText(ms)).toBe(text))
