import { expect, test } from 'vitest'
import { readBusyMs } from './busy.ts'

const nowMs = Date.parse('2026-01-01T12:00:00Z')

test.each([
  ['{"until":"2026-01-01T12:40:00Z"}', 2_400_000],
  ['{"type":"busy","until":"2026-01-01T14:00:00+02:00"}', 0],
  [`{"until":${nowMs + 1500}}`, 1500],
  ['{"until":"2026-01-01T11:59:59Z"}', 0],
  ['{"until":"9999-01-01T00:00:00Z"}', 86_400_000],
  ['{"until":"soon"}', null],
  ['{"until":null}', null],
  ['{"until":1e999}', null],
  ['{}', null],
  ['null', null],
  ['busy', null],
])('%s means busy for %s ms', (data, busyMs) => {
  expect(readBusyMs(data, nowMs)).toBe(busyMs)
})
