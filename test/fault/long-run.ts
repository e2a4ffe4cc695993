import { STREAM } from '@baton/store/names'
import type { Violation } from '../kit/history.ts'
import { everyAgent } from './every-agent.ts'
import { addFigures, figuresTable, type Figure } from './figures.ts'
import { keepEvidence, keepOutputs } from './keep-evidence.ts'
import type { Network } from './network.ts'
import { calmCensus, census, censusTable, checkFlat, type Census } from './resources.ts'
import { wave, type WaveResult } from './wave.ts'
import { World } from './world.ts'

export type LongRunOptions = {
  readonly minutes: number
  readonly seed: number
  readonly replicas: 1 | 3
  readonly network: Network | null
}

const WAVE_MS = 100_000
const SHORTEST_WAVE_MS = 20_000
const BETWEEN_MS = [800, 3200] as const
/** Clients of each run that read at once: with the others they make some thousand deliveries a second. */
const READERS = 4

/** One system, wave after wave of faults over it, each healed, drained and judged, until the time is over. */
export class LongRun {
  readonly #options: LongRunOptions
  readonly #figures = new Map<string, Figure>()
  readonly #censuses: Census[] = []
  readonly #totals = { faults: 0, stored: 0, delivered: 0 }
  readonly #startedAtMs = performance.now()

  constructor(options: LongRunOptions) {
    this.#options = options
  }

  /** Does every promise hold? What happened is printed. */
  async run(): Promise<boolean> {
    const { replicas, network } = this.#options
    await using world = await World.start({ replicas, relays: 3, edges: 3, network, smallDisk: network !== null })
    const first = await census(world)
    this.#censuses.push(first)
    for (let number = 1; this.#leftMs > 0; number++) {
      if (!(await this.#wave(world, number, first))) return false
    }
    this.#printFigures()
    return true
  }

  get #leftMs(): number {
    return this.#options.minutes * 60_000 - (performance.now() - this.#startedAtMs)
  }

  async #wave(world: World, number: number, first: Census): Promise<boolean> {
    const { seed, replicas, minutes } = this.#options
    const name = `seed-${seed}-replicas-${replicas}-wave-${number}`
    try {
      const result = await wave(world, {
        name: `w${number}`,
        seed: seed * 1000 + number,
        lengthMs: Math.max(SHORTEST_WAVE_MS, Math.min(WAVE_MS, this.#leftMs)),
        runs: everyAgent,
        readers: READERS,
        // From a quarter of the time on two processes live on: whatever grows has to show in them.
        faults: { betweenMs: BETWEEN_MS, longestMs: 30_000, spares: this.#leftMs < minutes * 45_000 },
      })
      this.#censuses.push(await calmCensus(world, first))
      const violations = [...result.violations, ...(this.#leftMs > 0 ? [] : checkFlat(this.#censuses))]
      this.#count(number, result, violations, world)
      if (violations.length > 0) {
        this.#fail(violations, await keepEvidence(name, { ...result, violations }, world.outputs))
        return false
      }
      await forget(world, result)
      return true
    } catch (error) {
      console.log(`wave ${number} could not be brought to its end: ${String(error)}: ${String((error as Error).cause)}`)
      this.#fail([], await keepOutputs(name, world.outputs))
      return false
    }
  }

  #count(number: number, result: WaveResult, violations: readonly Violation[], world: World): void {
    const { runs, stored: ofTopics } = result.history
    const stored = runs.reduce((sum, { log }) => sum + log.length, 0) + ofTopics.length
    this.#totals.faults += result.faults.length
    this.#totals.stored += stored
    this.#totals.delivered += result.delivered
    addFigures(this.#figures, result, world.outputs)
    console.log(
      `wave ${number}: ${result.faults.length} faults, ${stored} stored, ${result.delivered} delivered, ` +
        `settled in ${(result.settledMs / 1000).toFixed(1)} s, this process late by ${Math.round(result.latestMs)} ms at most, ` +
        `${violations.length} broken promises`,
    )
  }

  #fail(violations: readonly Violation[], folder: string): void {
    const { minutes, seed, replicas } = this.#options
    for (const { invariant, run, what } of violations.slice(0, 20)) console.log(`  ${invariant} ${run}: ${what}`)
    console.log(`  histories and logs: ${folder}`)
    console.log(`  again: npm run chaos -- --minutes ${minutes} --seed ${seed} --replicas ${replicas}`)
  }

  #printFigures(): void {
    const { seed, replicas } = this.#options
    const { faults, stored, delivered } = this.#totals
    const seconds = Math.round((performance.now() - this.#startedAtMs) / 1000)
    console.log(`\n${figuresTable(this.#figures)}\n\n${censusTable(this.#censuses)}\n`)
    console.log(
      `seed ${seed}, ${replicas} replica(s), ${seconds} s: ${faults} faults, ${stored} stored, ${delivered} delivered, ` +
        'no broken promise',
    )
  }
}

/** What an ended run leaves ages out after days; here an operator makes room after every wave. */
async function forget({ store, members }: World, { history }: WaveResult): Promise<void> {
  for (const { run } of history.runs) {
    for (const filter of [`run.${run}`, `run.${run}.owner`, `run.${run}.cursor`]) {
      await store.jsm.streams.purge(STREAM.runs, { filter })
    }
  }
  for (const { app } of members) app.forget()
}
