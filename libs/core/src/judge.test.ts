import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  isNews,
  judge,
  nextVerdict,
  provenVerdict,
  shownVerdict,
  thresholdsOf,
  VERDICTS,
  type Signs,
  type Thresholds,
} from './judge.ts'
import type { RunStatus } from './records.ts'

const s = 1000
const min = 60 * s
const h = 60 * min

const thresholds: Thresholds = { quietMs: min, stallMs: h, disconnectMs: 5 * min, orphanMs: h, ownerlessMs: 15 * s }
const status = (state: RunStatus['state']): RunStatus => ({
  state,
  end: null,
  relay: 'a',
  boot: 'b',
  epoch: 1,
  jobs: [],
  since: '',
})
const healthy: Signs = {
  status: status('running'),
  registeredAgeMs: 24 * h,
  livenessAgeMs: s,
  progressAgeMs: s,
  busyOverMs: null,
  ownerlessMs: 0,
  unconnectedMs: 0,
}
const verdict = (signs: Partial<Signs>, own: Partial<Thresholds> = {}) =>
  judge({ ...healthy, ...signs }, { ...thresholds, ...own })

const ownerGone = { ownerlessMs: h, unconnectedMs: h }

describe('what the signs say', () => {
  test('a run with fresh progress runs', () => expect(verdict({})).toBe('running'))

  test('a tool call of 40 minutes is quiet, no more', () => {
    expect(verdict({ progressAgeMs: 40 * min })).toBe('quiet')
    expect(verdict({ progressAgeMs: 40 * min, livenessAgeMs: 40 * min })).toBe('quiet')
  })

  test('keepalives for more than an hour with no work are a stall', () => {
    expect(verdict({ progressAgeMs: 61 * min })).toBe('stalled')
    expect(verdict({ progressAgeMs: null })).toBe('stalled')
  })

  test('an agent without keepalives is not disconnected by being silent', () => {
    expect(verdict({ livenessAgeMs: 50 * min, progressAgeMs: 50 * min })).toBe('quiet')
    expect(verdict({ livenessAgeMs: null, progressAgeMs: null })).toBe('stalled')
  })

  test('without a connection and without a byte for longer than the threshold it is disconnected', () => {
    expect(verdict({ livenessAgeMs: 6 * min, progressAgeMs: 6 * min, unconnectedMs: 6 * min })).toBe('disconnected')
    expect(verdict({ livenessAgeMs: null, unconnectedMs: 6 * min })).toBe('disconnected')
    expect(verdict({ livenessAgeMs: 6 * min, progressAgeMs: 6 * min, unconnectedMs: 4 * min })).toBe('quiet')
    expect(verdict({ livenessAgeMs: 4 * min, unconnectedMs: 6 * min })).toBe('running')
  })

  test('a fresh heartbeat over a dead worker saves it from nothing', () => {
    expect(verdict({ ownerlessMs: 16 * s })).toBe('disconnected')
    expect(verdict({ ...ownerGone, livenessAgeMs: 0, progressAgeMs: 2 * h })).toBe('orphaned')
  })

  test('a run taken over a second ago is as it was', () => {
    expect(verdict({ ownerlessMs: s, unconnectedMs: s })).toBe('running')
    const silent = { livenessAgeMs: null, progressAgeMs: 2 * h }
    expect(verdict({ ...silent, unconnectedMs: s })).toBe(verdict(silent))
    expect(verdict({ ...silent, ownerlessMs: s, unconnectedMs: s })).toBe('stalled')
  })

  test('an orphan has no progress and nobody connected: either alone is something else', () => {
    const noProgress = { progressAgeMs: 61 * min }
    expect(verdict({ ...noProgress, ...ownerGone })).toBe('orphaned')
    expect(verdict({ ...noProgress, unconnectedMs: 6 * min })).toBe('orphaned')
    expect(verdict(noProgress)).toBe('stalled')
    expect(verdict({ ...ownerGone, progressAgeMs: 59 * min })).toBe('disconnected')
  })

  test('the two heartbeats are not each other', () => {
    // Fails if either is read in the place of the other, anywhere.
    expect(verdict({ progressAgeMs: 2 * h, livenessAgeMs: 0 })).toBe('stalled')
    expect(verdict({ progressAgeMs: 0, livenessAgeMs: 2 * h })).toBe('running')
    expect(verdict({ ...ownerGone, progressAgeMs: 2 * h, livenessAgeMs: 0 })).toBe('orphaned')
    expect(verdict({ ...ownerGone, progressAgeMs: 0, livenessAgeMs: 2 * h })).toBe('disconnected')
    expect(verdict({ unconnectedMs: h, progressAgeMs: 0, livenessAgeMs: 2 * h })).toBe('disconnected')
    expect(verdict({ unconnectedMs: h, progressAgeMs: 10 * min, livenessAgeMs: 0 })).toBe('quiet')
  })

  test('whatever liveness says, it makes and prevents no orphan', () => {
    const age = fc.option(fc.nat(3 * h))
    fc.assert(
      fc.property(
        age,
        age,
        age,
        fc.nat(3 * h),
        fc.nat(3 * h),
        (one, other, progressAgeMs, ownerlessMs, unconnectedMs) => {
          const rest = { progressAgeMs, ownerlessMs, unconnectedMs }
          const orphaned = (livenessAgeMs: number | null) => verdict({ ...rest, livenessAgeMs }) === 'orphaned'
          expect(orphaned(one)).toBe(orphaned(other))
        },
      ),
    )
  })

  test('no run lacks signs for longer than it has been wanted', () => {
    const nothing = { livenessAgeMs: null, progressAgeMs: null, status: null, ...ownerGone }
    expect(verdict({ ...nothing, registeredAgeMs: 10 * s, ownerlessMs: 10 * s, unconnectedMs: 10 * s })).toBe('running')
    expect(verdict({ ...nothing, registeredAgeMs: 2 * min, ownerlessMs: 2 * min })).toBe('disconnected')
    expect(verdict({ ...nothing, registeredAgeMs: null })).toBe('orphaned')
  })

  test('busy until T: until then nothing is late, after it everything counts from T', () => {
    expect(verdict({ progressAgeMs: 2 * h, busyOverMs: -1 })).toBe('running')
    expect(verdict({ progressAgeMs: 2 * h, busyOverMs: 30 * s })).toBe('running')
    expect(verdict({ progressAgeMs: 2 * h, busyOverMs: 2 * min })).toBe('quiet')
    expect(verdict({ progressAgeMs: 3 * h, busyOverMs: 2 * h })).toBe('stalled')
    expect(verdict({ progressAgeMs: s, busyOverMs: 2 * h })).toBe('running')
    expect(verdict({ ...ownerGone, progressAgeMs: 2 * h, busyOverMs: -1 })).toBe('disconnected')
  })

  test('what has ended has ended', () => {
    expect(verdict({ ...ownerGone, status: status('ended'), progressAgeMs: null })).toBe('ended')
  })

  test('a run’s own thresholds stand before the common ones', () => {
    const own = thresholdsOf({ quietMs: 2 * h, stallMs: null, orphanMs: 5 * h }, thresholds)
    expect(own).toEqual({ ...thresholds, quietMs: 2 * h, orphanMs: 5 * h })
    expect(thresholdsOf(null, thresholds)).toEqual(thresholds)
    expect(judge({ ...healthy, ...ownerGone, progressAgeMs: 2 * h }, own)).toBe('disconnected')
  })
})

const rank = (one: ReturnType<typeof judge>) => VERDICTS.indexOf(one)
const someAge = fc.option(fc.nat(3 * h))
const someSigns: fc.Arbitrary<Signs> = fc.record({
  status: fc.constantFrom(null, status('running')),
  registeredAgeMs: someAge,
  livenessAgeMs: someAge,
  progressAgeMs: someAge,
  busyOverMs: fc.option(fc.integer({ min: -h, max: 3 * h })),
  ownerlessMs: fc.nat(3 * h),
  unconnectedMs: fc.nat(3 * h),
})
const someVerdict = fc.constantFrom(...VERDICTS)

describe('nobody is judged on what could not be written', () => {
  test('a watchdog that has just started, or has NATS back, says nothing bad of anybody', () => {
    fc.assert(
      fc.property(someSigns, (signs) => {
        expect(provenVerdict(signs, thresholds, 0)).toBe('running')
      }),
    )
  })

  test('silence counts no longer than it was observed', () => {
    const orphan = { ...healthy, ...ownerGone, progressAgeMs: null }
    expect(nextVerdict('running', orphan, thresholds, 10 * s)).toBe('running')
    expect(nextVerdict('running', orphan, thresholds, 20 * s)).toBe('disconnected')
    expect(nextVerdict('disconnected', orphan, thresholds, 59 * min)).toBe('disconnected')
    expect(nextVerdict('disconnected', orphan, thresholds, h)).toBe('orphaned')
  })

  test('one who has just started takes back nothing that the signs still allow', () => {
    const stalled = { ...healthy, progressAgeMs: 2 * h }
    expect(nextVerdict('stalled', stalled, thresholds, 0)).toBe('stalled')
    expect(nextVerdict('quiet', stalled, thresholds, 0)).toBe('quiet')
    expect(nextVerdict('stalled', healthy, thresholds, 0)).toBe('running')
    expect(nextVerdict('orphaned', stalled, thresholds, h)).toBe('stalled')
  })

  test('more time to observe never makes a better verdict, and never one worse than the signs say', () => {
    fc.assert(
      fc.property(someSigns, fc.nat(3 * h), fc.nat(3 * h), (signs, one, more) => {
        const [early, late] = [provenVerdict(signs, thresholds, one), provenVerdict(signs, thresholds, one + more)]
        expect(rank(early)).toBeLessThanOrEqual(rank(late))
        expect(rank(late)).toBeLessThanOrEqual(rank(judge(signs, thresholds)))
      }),
    )
  })

  test('two watchdogs that have seen for different times settle: none of them takes back what the other says', () => {
    fc.assert(
      fc.property(someVerdict, someSigns, fc.nat(3 * h), fc.nat(3 * h), (previous, signs, one, other) => {
        const said = nextVerdict(nextVerdict(previous, signs, thresholds, one), signs, thresholds, other)
        expect(nextVerdict(said, signs, thresholds, one)).toBe(said)
        expect(nextVerdict(said, signs, thresholds, other)).toBe(said)
      }),
    )
  })
})

describe('who only shows verdicts', () => {
  const stalled = { ...healthy, progressAgeMs: 2 * h }

  test('says at once what the signs leave no doubt of, and nothing where they do', () => {
    expect(shownVerdict(null, healthy, thresholds, 0)).toBe('running')
    expect(shownVerdict(null, { ...healthy, status: status('ended') }, thresholds, 0)).toBe('ended')
    expect(shownVerdict(null, stalled, thresholds, 0)).toBe(null)
    expect(shownVerdict(null, stalled, thresholds, 2 * min)).toBe('quiet')
    expect(shownVerdict(null, stalled, thresholds, 2 * h)).toBe('stalled')
  })

  test('takes the word of a watchdog as far as the signs allow it', () => {
    expect(shownVerdict('stalled', stalled, thresholds, 0)).toBe('stalled')
    expect(shownVerdict('running', stalled, thresholds, 0)).toBe('running')
    expect(shownVerdict('stalled', healthy, thresholds, 0)).toBe('running')
    expect(shownVerdict('quiet', stalled, thresholds, 2 * h)).toBe('stalled')
  })

  test('says what a watchdog that has observed as long would say, or nothing', () => {
    fc.assert(
      fc.property(someVerdict, someSigns, fc.nat(3 * h), (told, signs, observedMs) => {
        expect(shownVerdict(told, signs, thresholds, observedMs) ?? 'running').toBe(
          nextVerdict(told, signs, thresholds, observedMs),
        )
      }),
    )
  })
})

test('news is a change; a healthy end is none, and nothing follows an end', () => {
  expect(isNews('running', 'running')).toBe(false)
  expect(isNews('running', 'quiet')).toBe(true)
  expect(isNews('stalled', 'running')).toBe(true)
  expect(isNews('running', 'ended')).toBe(false)
  expect(isNews('orphaned', 'ended')).toBe(true)
  expect(isNews('ended', 'running')).toBe(false)
})
