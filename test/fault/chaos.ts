import { parseArgs } from 'node:util'
import { everyAgent } from './every-agent.ts'
import { faultRun } from './fault-run.ts'
import { keepEvidence } from './keep-evidence.ts'

/**
 * The long fault run: `npm run chaos -- --minutes M --seed S`. A minute of faults after the other, each on a fresh system
 * and with the next seed, so that a failure is run again by its own number. Exit 1 on the first broken promise.
 */
const MINUTE_MS = 60_000

const usage = (complaint: string): never => {
  console.error(`${complaint}\nusage: npm run chaos -- --minutes M --seed S [--replicas 1]`)
  process.exit(2)
}

const { minutes, seed } = readArguments()
const totals = { faults: 0, events: 0 }
for (let round = 0; round < minutes; round++) {
  const own = seed + round
  const result = await faultRun({ seed: own, lengthMs: MINUTE_MS, relays: 3, edges: 2, runs: everyAgent })
  const events = result.histories.reduce((sum, { log }) => sum + log.length, 0)
  totals.faults += result.faults.length
  totals.events += events
  console.log(
    `seed ${own}: ${result.faults.length} faults, ${events} records in the log, ${result.violations.length} broken promises`,
  )
  if (result.violations.length === 0) continue
  for (const { invariant, run, what } of result.violations.slice(0, 20)) console.log(`  ${invariant} ${run}: ${what}`)
  console.log(`  histories and logs: ${await keepEvidence(own, result)}`)
  console.log(`  again: npm run chaos -- --minutes 1 --seed ${own}`)
  process.exit(1)
}
console.log(`${minutes} minutes, ${totals.faults} faults, ${totals.events} records in the log, no broken promise`)
process.exit(0)

function readArguments(): { minutes: number; seed: number } {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '10' },
        seed: { type: 'string', default: String(Math.floor(Date.now() / 86_400_000)) },
        replicas: { type: 'string', default: '1' },
      },
    })
    const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
    if (!Number.isSafeInteger(minutes) || minutes < 1) usage('--minutes must be a whole number, at least 1')
    if (!Number.isSafeInteger(seed) || seed < 0) usage('--seed must be a whole number')
    if (values.replicas !== '1') usage('--replicas: the fault run has one replica for now')
    return { minutes, seed }
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error))
  }
}
