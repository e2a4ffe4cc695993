import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { everyAgent } from './every-agent.ts'
import { addFigures, figuresTable, type Figure } from './figures.ts'
import { keepEvidence } from './keep-evidence.ts'
import { inOwnNetwork, Network } from './network.ts'
import { calmCensus, census, censusTable, checkFlat, type Census } from './resources.ts'
import { wave } from './wave.ts'
import { DOORS, World } from './world.ts'

/**
 * The long fault run: `npm run chaos -- --minutes M --seed S [--replicas 1|3]` (README.md in this folder). One system,
 * wave after wave of faults over it, each healed, drained and judged. Exit 1 on the first broken promise.
 */
const WAVE_MS = 100_000
const BETWEEN_MS = [800, 3200] as const

const asked = readArguments()
const again = inOwnNetwork()
if (again !== null) {
  const [command = '', ...args] = [...again.command, process.execPath, ...process.argv.slice(1)]
  const { status } = spawnSync(command, args, { stdio: 'inherit', env: again.environment })
  process.exit(status ?? 1)
}
const network = Network.open(Object.values(DOORS))
process.exit(await chaos())

async function chaos(): Promise<number> {
  const { minutes, seed, replicas } = asked
  const [startedAtMs, untilMs] = [Date.now(), performance.now() + minutes * 60_000]
  console.log(
    `chaos: seed ${seed}, ${replicas} replica(s), ${minutes} minutes, ` +
      (network === null ? 'on loopback alone: no packet loss, no full disk' : 'in a network of its own'),
  )
  await using world = await World.start({ replicas, relays: 3, edges: 3, network, smallDisk: network !== null })
  const figures = new Map<string, Figure>()
  const first = await census(world)
  const censuses: Census[] = [first]
  const totals = { faults: 0, delivered: 0, stored: 0 }
  for (let number = 1; performance.now() < untilMs; number++) {
    // From a quarter of the time on two processes live on: whatever grows has to show in them.
    const spares = Date.now() - startedAtMs > (minutes * 60_000) / 4
    const lengthMs = Math.max(20_000, Math.min(WAVE_MS, untilMs - performance.now()))
    const faults = { betweenMs: BETWEEN_MS, longestMs: 30_000, spares }
    const result = await wave(world, {
      name: `w${number}`,
      seed: seed * 1000 + number,
      lengthMs,
      runs: everyAgent,
      readers: 4,
      faults,
    })
    censuses.push(await calmCensus(world, first))
    const violations = [...result.violations, ...(performance.now() < untilMs ? [] : checkFlat(censuses))]
    const stored = result.history.runs.reduce((sum, { log }) => sum + log.length, 0) + result.history.stored.length
    totals.faults += result.faults.length
    totals.delivered += result.delivered
    totals.stored += stored
    console.log(
      `wave ${number}: ${result.faults.length} faults, ${stored} stored, ${result.delivered} delivered, ` +
        `settled in ${(result.settledMs / 1000).toFixed(1)} s, ${violations.length} broken promises`,
    )
    addFigures(figures, result, world.outputs)
    if (violations.length > 0) {
      for (const { invariant, run, what } of violations.slice(0, 20)) console.log(`  ${invariant} ${run}: ${what}`)
      const folder = `seed-${seed}-replicas-${replicas}-wave-${number}`
      console.log(
        `  histories and logs: ${await keepEvidence(folder, { ...result, violations, outputs: world.outputs })}`,
      )
      console.log(`  again: npm run chaos -- --minutes ${minutes} --seed ${seed} --replicas ${replicas}`)
      return 1
    }
    await forget(
      world,
      result.history.runs.map(({ run }) => run),
    )
  }
  console.log(`\n${figuresTable(figures)}\n\n${censusTable(censuses)}\n`)
  const seconds = Math.round((Date.now() - startedAtMs) / 1000)
  console.log(
    `seed ${seed}, ${replicas} replica(s), ${seconds} s: ${totals.faults} faults, ${totals.stored} stored, ` +
      `${totals.delivered} delivered, no broken promise`,
  )
  return 0
}

/** What an ended run leaves ages out after days; here an operator makes room after every wave. */
async function forget({ store }: World, runs: readonly string[]): Promise<void> {
  for (const run of runs) {
    for (const filter of [`run.${run}`, `run.${run}.owner`, `run.${run}.cursor`])
      await store.jsm.streams.purge('RUNS', { filter })
  }
}

function usage(complaint: string): never {
  console.error(`${complaint}\nusage: npm run chaos -- --minutes M --seed S [--replicas 1|3]`)
  process.exit(2)
}

function readArguments(): { minutes: number; seed: number; replicas: 1 | 3 } {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '10' },
        seed: { type: 'string', default: String(Math.floor(Date.now() / 86_400_000)) },
        replicas: { type: 'string', default: '1' },
      },
    })
    const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
    if (!(minutes > 0)) usage('--minutes must be a number above 0')
    if (!Number.isSafeInteger(seed) || seed < 0) usage('--seed must be a whole number')
    if (values.replicas !== '1' && values.replicas !== '3') usage('--replicas must be 1 or 3')
    return { minutes, seed, replicas: values.replicas === '3' ? 3 : 1 }
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error))
  }
}
