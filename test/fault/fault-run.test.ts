import { expect, test } from 'vitest'
import { everyAgent } from './every-agent.ts'
import { faultRun } from './fault-run.ts'
import { keepEvidence } from './keep-evidence.ts'

/** A failure can be run again as it was; another seed is another run of bad luck. */
const seed = Number(process.env['BATON_FAULT_SEED'] ?? 1)

test(`I1 I2 I3 I5: a minute of faults, seed ${seed}, breaks no promise`, async () => {
  const result = await faultRun({ seed, lengthMs: 60_000, relays: 3, edges: 2, runs: everyAgent })
  if (result.violations.length > 0) {
    console.error(`seed ${seed}: histories and logs are in ${await keepEvidence(seed, result)}`)
  }
  expect(result.violations).toEqual([])
  expect(
    result.histories.every(({ log }) => log.length > 100),
    'every run had events',
  ).toBe(true)
})
