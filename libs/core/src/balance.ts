/** FNV-1a over UTF-16 units, mixed once more: rendezvous hashing needs good high bits for short, similar keys. */
function hash(text: string): number {
  let h = 0x811c9dc5
  for (let at = 0; at < text.length; at++) h = Math.imul(h ^ text.charCodeAt(at), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/**
 * The place of `self` among the live relays for this run, 0 = tries first (rendezvous hashing: every relay
 * computes the same order with no message, and a relay that leaves moves only its own runs).
 */
export function rank(run: string, self: string, boots: Iterable<string>): number {
  const mine = hash(`${run}|${self}`)
  let before = 0
  for (const boot of boots) {
    if (boot === self) continue
    const theirs = hash(`${run}|${boot}`)
    if (theirs > mine || (theirs === mine && boot < self)) before++
  }
  return before
}

/** How many runs a relay should hold when `runs` are spread over `relays`. */
export const share = (runs: number, relays: number): number => Math.ceil(runs / Math.max(1, relays))

/**
 * How long a relay waits before it tries to claim a run: its rank × 50 ms, and × 150 ms once it has its share,
 * so that the one that should have it comes first and nobody else's death leaves it unclaimed.
 */
export function claimDelayMs(input: { rank: number; owned: number; share: number }): number {
  const overShare = input.owned >= input.share
  return overShare ? 150 + input.rank * 150 : input.rank * 50
}

export type Load = { readonly boot: string; readonly runs: number; readonly draining: boolean }

/** A move happens only past this imbalance: every move reopens an upstream connection. */
const TOLERANCE = 0.1

/**
 * From whom this relay should ask runs, and how many, at most `limit`: only when it is below its share and the
 * richest is more than 10 % above the mean. Null when the spread is good enough.
 */
export function rebalance(self: string, loads: readonly Load[], limit: number): { from: string; runs: number } | null {
  const live = loads.filter((load) => !load.draining)
  const me = live.find((load) => load.boot === self)
  if (me === undefined || live.length < 2) return null
  const total = live.reduce((sum, load) => sum + load.runs, 0)
  const mean = total / live.length
  const richest = live.reduce((most, load) => (load.runs > most.runs ? load : most))
  if (richest.boot === self || richest.runs - mean <= Math.max(1, mean * TOLERANCE)) return null
  const lack = Math.floor(mean) - me.runs
  const spare = Math.floor(richest.runs - mean)
  const runs = Math.min(limit, lack, spare)
  return runs > 0 ? { from: richest.boot, runs } : null
}
