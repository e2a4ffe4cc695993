import { expect, test } from 'vitest'
import { faultRun } from './fault-run.ts'
import { keepEvidence } from './keep-evidence.ts'

/** A failure can be run again as it was; another seed is another run of bad luck. */
const seed = Number(process.env['BATON_FAULT_SEED'] ?? 1)

test(`I1 I2 I3 I4 I5: a minute of faults, seed ${seed}, breaks no promise`, async () => {
  const result = await faultRun({ seed, lengthMs: 60_000 })
  if (result.violations.length > 0) {
    console.error(
      `seed ${seed}: histories and logs are in ${await keepEvidence(`seed-${seed}`, result, result.outputs)}`,
    )
  }
  expect(result.violations).toEqual([])
  expect(
    result.history.runs.every(({ log }) => log.length > 100),
    'every run had events',
  ).toBe(true)
  expect(result.faults.length, 'faults happened').toBeGreaterThan(20)
})
