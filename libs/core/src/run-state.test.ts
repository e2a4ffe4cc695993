import { describe, expect, test } from 'vitest'
import { VERDICTS } from './judge.ts'
import { WATCHDOG, type Claim, type JobStatus, type RunStatus } from './records.ts'
import { parseRegistration } from './run.ts'
import { jobAtEnd, presenceOf, runState, verdictIn, type RunState } from './run-state.ts'

const good = parseRegistration('r', { url: 'http://127.0.0.1:9/' })
const bad = parseRegistration('r', { url: 'nonsense' })
const claim: Claim = { relay: 'relay-1', boot: 'b1', epoch: 1, since: '' }
const status: RunStatus = {
  state: 'running',
  end: null,
  relay: 'relay-1',
  boot: 'b1',
  epoch: 1,
  since: '',
  jobs: [{ job: 'main', state: 'connected', reason: null, failingSince: null }],
}
const ended: RunStatus = { ...status, state: 'ended', end: { reason: 'completed', detail: null } }

describe('the state of a run', () => {
  test('ended is final, whatever is registered or claimed', () => {
    for (const spec of [good, bad, null]) expect(runState(spec, ended, claim)).toBe('ended')
  })

  test('an invalid registration is nobody’s, also where somebody had the run', () => {
    expect(runState(bad, null, null)).toBe('invalid')
    expect(runState(bad, status, claim)).toBe('invalid')
  })

  test('it runs once somebody has it, and while it has lost its owner', () => {
    expect(runState(good, null, null)).toBe('waiting')
    expect(runState(good, null, claim)).toBe('running')
    expect(runState(good, status, null)).toBe('running')
  })
})

test('a run that waits has no verdict but that nobody begins it, an invalid one has none', () => {
  const shown = (state: RunState) => VERDICTS.filter((verdict) => verdictIn(state, verdict) === verdict)
  expect(shown('invalid')).toEqual([])
  expect(shown('waiting').toSorted()).toEqual(['disconnected', 'orphaned'])
  expect(shown('running')).toEqual([...VERDICTS])
  expect(verdictIn('running', null)).toBe(null)
})

test('a claim of a watchdog is no owner', () => {
  expect(presenceOf(status, claim)).toEqual({ owned: true, connected: true })
  expect(presenceOf(status, { ...claim, relay: WATCHDOG })).toEqual({ owned: false, connected: true })
  expect(presenceOf(null, null)).toEqual({ owned: false, connected: false })
})

describe('a job of a run whose end is in the log', () => {
  const connected = { state: 'connected', reason: null } as const
  const only = { isOnly: true }
  const oneOfMany = { isOnly: false }

  test('has ended as its status says, where that says so', () => {
    const over: Pick<JobStatus, 'state' | 'reason'> = { state: 'completed', reason: 'answered 410' }
    expect(jobAtEnd(over, { reason: 'failed', detail: null }, { reason: 'failed' }, only)).toEqual(over)
  })

  test('has ended as its own events say', () => {
    const cancelled = { reason: 'cancelled', detail: null } as const
    expect(jobAtEnd(connected, cancelled, { reason: 'failed' }, oneOfMany)).toEqual({
      state: 'cancelled',
      reason: null,
    })
    const done = { reason: 'completed', detail: null } as const
    expect(jobAtEnd(connected, done, { reason: 'failed' }, oneOfMany)).toEqual({ state: 'completed', reason: null })
  })

  test('has ended with its run, where one end can only mean that', () => {
    const failed = { reason: 'failed', detail: 'answered 400' } as const
    expect(jobAtEnd(connected, null, failed, only)).toEqual({ state: 'failed', reason: 'answered 400' })
    expect(jobAtEnd(connected, null, failed, oneOfMany)).toEqual(connected)
    expect(jobAtEnd(connected, null, { reason: 'completed' }, oneOfMany).state).toBe('completed')
    expect(jobAtEnd(connected, null, { reason: 'cancelled' }, oneOfMany).state).toBe('cancelled')
    expect(jobAtEnd(connected, null, { reason: 'orphaned', detail: 'x' }, only)).toEqual(connected)
  })
})
