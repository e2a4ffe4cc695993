import { expect, test } from 'vitest'
import { faultRun } from './fault-run.ts'
import { keepEvidence } from './keep-evidence.ts'

/** A failure can be run again as it was; another seed is another run of bad luck. */
const seed = Number(process.env['BATON_FAULT_SEED'] ?? 1)

/** Every way in which an agent may serve one who comes back, and a run of large events that slow readers fall behind. */
const runs = [
  { mode: 'id', resume: 'auto', perSecond: 100, dataBytes: 4096 },
  { mode: 'id', resume: 'auto', perSecond: 50, idEvery: 3 },
  { mode: 'id', resume: 'last-event-id', perSecond: 50 },
  { mode: 'replay', resume: 'replay', perSecond: 50 },
  { mode: 'replay', resume: 'auto', perSecond: 50, idEvery: 0 },
  { mode: 'window', resume: 'replay', perSecond: 20 },
  { mode: 'none', resume: 'none', perSecond: 50 },
  { mode: 'none', resume: 'auto', perSecond: 20, idEvery: 0 },
] as const

test(`I1 I2 I3 I5: a minute of faults, seed ${seed}, breaks no promise`, async () => {
  const result = await faultRun({ seed, lengthMs: 60_000, relays: 3, edges: 2, runs })
  if (result.violations.length > 0) {
    console.error(`seed ${seed}: histories and logs are in ${await keepEvidence(seed, result)}`)
  }
  expect(result.violations).toEqual([])
  expect(
    result.histories.every(({ log }) => log.length > 100),
    'every run had events',
  ).toBe(true)
})
