import { expect, test } from 'vitest'
import { mayAccuse, nobodyConvicts, silenceConvicts, suspicion } from './suspicion.ts'

const healthy = { loopLagMs: 5, sinceOwnBeatMs: 150, sinceConnectedMs: 60_000, beatMs: 200 }

test('I6: a beat 100 ms late asks for a ping, the fifth missing one is death', () => {
  expect(suspicion(300, 200)).toBe('trust')
  expect(suspicion(301, 200)).toBe('ping')
  expect(suspicion(1100, 200)).toBe('ping')
  expect(suspicion(1101, 200)).toBe('silent')
})

test('a process that is late, deaf or just back accuses nobody', () => {
  expect(mayAccuse(healthy)).toBe(true)
  expect(mayAccuse({ ...healthy, loopLagMs: 100 })).toBe(false)
  expect(mayAccuse({ ...healthy, sinceOwnBeatMs: 1001 })).toBe(false)
  expect(mayAccuse({ ...healthy, sinceConnectedMs: 999 })).toBe(false)
})

test('when several fall silent at once it is doubted for a second more', () => {
  expect(silenceConvicts(1101, 200, 0)).toBe(true)
  expect(silenceConvicts(1101, 200, 1)).toBe(false)
  expect(silenceConvicts(2101, 200, 1)).toBe(true)
})

test('"nobody listens" convicts at once, but for a process that has just come back to NATS itself', () => {
  expect(nobodyConvicts(Infinity)).toBe(true)
  expect(nobodyConvicts(1000)).toBe(true)
  expect(nobodyConvicts(999)).toBe(false)
})
