import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../kit/find-binary.ts'
import { durabilityBenches } from './durability.ts'
import { machine, type Row } from './measure.ts'
import { takeoverBenches } from './takeover.ts'
import { throughputBenches } from './throughput.ts'
import { watchdogBenches } from './watchdog.ts'

/**
 * Measures, prints a table, writes JSON under .baton/bench/. Words on the command line choose: only the benches whose
 * name holds one of them run.
 */
const chosen = process.argv.slice(2)
const benches: Readonly<Record<string, () => Promise<Row>>> = {
  ...takeoverBenches,
  ...throughputBenches,
  ...watchdogBenches,
  ...durabilityBenches,
}

const names = Object.keys(benches)
if (chosen.includes('--help') || chosen.includes('-h')) {
  const list = names.map((name) => `  ${name}`).join('\n')
  console.log(`npm run bench -- [name …]: measures all, or those whose name has one of these words in it\n\n${list}`)
  process.exit(0)
}
const unknown = chosen.find((word) => !names.some((name) => name.includes(word)))
if (unknown !== undefined) {
  console.error(`no bench is called ${unknown}: npm run bench -- --help shows them`)
  process.exit(2)
}

const rows: Row[] = []
console.log(machine())
for (const [name, bench] of Object.entries(benches)) {
  if (chosen.length > 0 && !chosen.some((word) => name.includes(word))) continue
  process.stderr.write(`measuring: ${name} …\n`)
  rows.push(await bench())
}
rows.push(...ratios(rows))

const width = Math.max(...rows.map(({ what }) => what.length))
for (const { what, figures } of rows) {
  const text = Object.entries(figures).map(([name, value]) => `${name} ${value}`)
  console.log(`${what.padEnd(width)}  ${text.join('  ')}`)
}
const folder = join(root, '.baton', 'bench')
await mkdir(folder, { recursive: true })
const file = join(folder, `${new Date().toISOString().replaceAll(':', '-')}.json`)
await writeFile(file, `${JSON.stringify({ machine: machine(), rows }, null, 2)}\n`)
console.log(file)
process.exit(0)

/** How much the disconnect notice is worth: on another machine the figures differ, their ratio hardly. */
function ratios(measured: readonly Row[]): Row[] {
  const p50 = (what: string): number => Number(measured.find((row) => row.what === what)?.figures['p50_ms'])
  const [without, having] = [p50('kill -9, without it'), p50('kill -9, with the disconnect notice')]
  if (Number.isNaN(without) || Number.isNaN(having)) return []
  return [{ what: 'kill -9, without the notice ÷ with it', figures: { p50_ratio: (without / having).toFixed(1) } }]
}
