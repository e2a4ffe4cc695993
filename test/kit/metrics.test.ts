import { expect, test } from 'vitest'
import { complaints } from './metrics.ts'

const family = (name: string, type = 'GAUGE', help = 'Something') => ({ name, type, help })

test('a family that keeps to the conventions has nothing to complain of', () => {
  expect(complaints(family('baton_relay_runs'))).toEqual([])
  expect(complaints(family('baton_relay_claims_total', 'COUNTER'))).toEqual([])
  expect(complaints(family('baton_relay_append_seconds', 'HISTOGRAM'))).toEqual([])
})

test.each([
  family('baton_relay_claims', 'COUNTER'),
  family('baton_relay_runs_total'),
  family('baton_relay_lag_ms'),
  family('batonRelayRuns'),
  family('baton_relay_runs', 'UNTYPED'),
  family('baton_relay_runs', 'GAUGE', ''),
  family('baton_relay_append', 'HISTOGRAM'),
  family('baton_relay_append_count'),
])('one that does not is found: $name, $type', (one) => {
  expect(complaints(one)).not.toEqual([])
})
