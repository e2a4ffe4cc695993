/**
 * Loaded into a process of ours before its own code: the hand of a fault run inside it. On SIGUSR2 it reads what is
 * wanted from the file named in CHAOS_ORDERS: `{"clockShiftMs": n}` moves its wall clock, and it answers beside that
 * file with what keeps its event loop alive. The product knows nothing of this.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'

const file = process.env['CHAOS_ORDERS'] ?? ''
let shiftMs = 0
const RealDate = globalThis.Date
const realNow = RealDate.now.bind(RealDate)

class ShiftedDate extends RealDate {
  constructor(...args: [] | ConstructorParameters<typeof RealDate>) {
    if (args.length === 0) super(realNow() + shiftMs)
    else super(...args)
  }

  static override now(): number {
    return realNow() + shiftMs
  }
}
globalThis.Date = ShiftedDate as DateConstructor

process.on('SIGUSR2', () => {
  try {
    shiftMs = (JSON.parse(readFileSync(file, 'utf8')) as { clockShiftMs?: number }).clockShiftMs ?? 0
  } catch {
    // Nothing is ordered: only the answer is wanted.
  }
  const alive = Object.groupBy(process.getActiveResourcesInfo(), (name) => name)
  const counts = Object.entries(alive).map(([name, all]) => [name, all?.length ?? 0])
  writeFileSync(`${file}.tmp`, JSON.stringify({ pid: process.pid, atMs: realNow(), alive: Object.fromEntries(counts) }))
  renameSync(`${file}.tmp`, `${file}.answer`)
})
