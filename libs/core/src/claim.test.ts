import { describe, expect, test } from 'vitest'
import { decideClaim, type Seen } from './claim.ts'
import type { RunStatus } from './records.ts'
import { parseRegistration } from './run.ts'

const wanted = parseRegistration('r1', { url: 'http://agent/' })
const invalid = parseRegistration('r1', {})
const claim = { relay: 'a', boot: 'b1', epoch: 1, since: '' }
const status = (state: RunStatus['state']): RunStatus => ({
  state,
  end: null,
  relay: 'a',
  boot: 'b1',
  epoch: 1,
  jobs: [],
  since: '',
})
const seen = (over: Partial<Seen>): Seen => ({ wanted, claim: null, status: null, holder: 'dead', ...over })

describe('whether to go for a run', () => {
  test('wanted and unclaimed: yes', () => expect(decideClaim(seen({}))).toBe('claim'))
  test('in the hands of a living relay: no', () => {
    expect(decideClaim(seen({ claim, holder: 'alive' }))).toBe('leave')
  })
  test('in the hands of a dead one, or left over from this process: yes', () => {
    expect(decideClaim(seen({ claim, holder: 'dead' }))).toBe('claim')
    expect(decideClaim(seen({ claim, holder: 'me' }))).toBe('claim')
  })
  test('of a relay never heard of: ask first', () =>
    expect(decideClaim(seen({ claim, holder: 'unknown' }))).toBe('ask'))
  test('over: no, whatever else', () => {
    expect(decideClaim(seen({ status: status('ended') }))).toBe('leave')
    expect(decideClaim(seen({ status: status('ended'), claim, holder: 'dead' }))).toBe('leave')
  })
  test('deleted after it was begun: somebody has to end it; never begun: nobody', () => {
    expect(decideClaim(seen({ wanted: null, status: status('running') }))).toBe('claim')
    expect(decideClaim(seen({ wanted: null, status: status('running'), claim, holder: 'alive' }))).toBe('leave')
    expect(decideClaim(seen({ wanted: null }))).toBe('leave')
  })
  test('not valid: no', () => {
    expect(decideClaim(seen({ wanted: invalid }))).toBe('leave')
    expect(decideClaim(seen({ wanted: invalid, status: status('running') }))).toBe('leave')
    expect(decideClaim(seen({ wanted: invalid, status: status('running'), claim }))).toBe('leave')
  })
})
