import { describe, expect, test } from 'vitest'
import { changedFields, changeText, type Row } from './row.ts'

const row = (change: Partial<Row> = {}): Row => ({
  run: 'r',
  state: 'running',
  owner: { relay: 'relay-1', boot: 'b1', epoch: 12 },
  head: 1,
  livenessAgeMs: 0,
  progressAgeMs: 0,
  verdict: 'running',
  takeovers: 0,
  end: null,
  ...change,
})

const told = (before: Row | null, after: Row) => changeText(before, after, changedFields(before, after))

describe('what is worth a line', () => {
  test('a run that is new, with all of it', () => {
    expect(told(null, row())).toBe('state running, owner relay-1, epoch 12, verdict running, takeovers 0')
  })
  test('nothing, when only time and events have gone on', () => {
    expect(changedFields(row(), row({ head: 2, livenessAgeMs: 900, progressAgeMs: 900 }))).toEqual([])
  })
  test('a takeover, also by another process of the same name', () => {
    const taken = row({ owner: { relay: 'relay-1', boot: 'b2', epoch: 19 }, takeovers: 1 })
    expect(told(row(), taken)).toBe('owner relay-1 → relay-1, epoch 12 → 19, takeovers 0 → 1')
  })
  test('an end, with its reason', () => {
    const ended = row({ state: 'ended', owner: null, verdict: 'ended', end: { reason: 'completed', detail: null } })
    expect(told(row(), ended)).toBe(
      'state running → ended (completed), owner relay-1 → nobody, epoch 12 → -, verdict running → ended',
    )
  })
})
