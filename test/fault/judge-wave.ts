import { check } from '../kit/checker.ts'
import { checkFollower, type Stored } from '../kit/check-follower.ts'
import { checkHeard, checkPublished, type Heard, type Published } from '../kit/check-published.ts'
import type { Span } from '../kit/check-tails.ts'
import type { ClientHistory, LogEntry, RunHistory, Violation } from '../kit/history.ts'
import { OVERLAP_MS } from '../kit/judge.ts'
import type { Inflicted } from './inflict.ts'
import type { NodeLog } from './read-nodes.ts'

/** All that is known of one wave. */
export type WaveHistory = {
  readonly runs: readonly RunHistory[]
  /** The client that followed all runs on one connection. */
  readonly set: ClientHistory
  /** `upTo`: the newest sequence that each of them was waited for to have. */
  readonly topics: readonly { readonly filter: string; readonly client: ClientHistory; readonly upTo: number }[]
  /** What is stored of topics. */
  readonly stored: readonly Stored[]
  readonly published: readonly Published[]
  readonly heard: readonly Heard[]
  /** The log as each node of NATS keeps it; nothing where there is only one. */
  readonly nodes: readonly NodeLog[]
  readonly faults: readonly Inflicted[]
}

/** Which promises the history of a wave breaks. Pure. */
export function judgeWave(history: WaveHistory): Violation[] {
  const { runs, set, topics, stored, published, heard, nodes, faults } = history
  const isAlone = nodes.length === 0
  const frozen = faults.flatMap((fault) => keepsSockets(fault, isAlone))
  const allowances = { overlapMs: OVERLAP_MS, nowMs: Date.now(), frozen, ownersKnown: false }
  const all = runs
    .flatMap(({ run, log }) => log.flatMap((entry) => (entry.kind === 'event' ? [{ run, event: entry.event }] : [])))
    .sort((one, other) => one.event.sequence - other.event.sequence)
  const ofSets = all.map(({ run, event: { sequence, data } }) => ({ sequence, of: run, data }))
  const matches = (filter: string): readonly Stored[] =>
    stored.filter(({ of }) => filter.endsWith('>') || of.endsWith('.1'))
  const byRun = new Map(
    runs.map(({ run, log }) => [
      run,
      new Map(log.flatMap((entry) => (entry.kind === 'event' ? [[entry.sequence, entry.event] as const] : []))),
    ]),
  )
  return [
    ...runs.flatMap((run) => check(run, allowances)),
    ...checkFollower('all runs', set, ofSets),
    ...topics.flatMap(({ filter, client, upTo }) => checkFollower(filter, client, matches(filter), upTo)),
    ...checkPublished(published, stored),
    ...checkHeard(heard, byRun, !isAlone),
    ...nodeComplaints(history),
  ]
}

/** How long a relay that NATS cannot reach may take itself for the owner: BATON_CLAIM_TTL_MS. */
const CLAIM_TTL_MS = 15_000

/**
 * When a process could not learn that it should let go of its agents, or they that it has: while it was paused or the
 * line to them was dead, while the only node of NATS was away, and, parted from it, until its claim had run out.
 */
function keepsSockets({ fault, fromMs, toMs }: Inflicted, isAlone: boolean): Span[] {
  // Of a parted cluster one side has no claims to renew, and its relays cannot know that the other side has.
  if (fault.kind === 'half-open-agents' || fault.kind === 'part-nats') return [{ fromMs, toMs }]
  if (!('role' in fault)) return []
  // A relay that was paused and taken for dead finds nobody to ask when it goes on.
  if (fault.role === 'nats') return isAlone ? [{ fromMs, toMs }] : []
  if (fault.role !== 'relay') return []
  if (fault.kind === 'pause') return [{ fromMs, toMs }]
  return ['part', 'cut-off', 'hold', 'delay'].includes(fault.kind) ? [{ fromMs, toMs: fromMs + CLAIM_TTL_MS }] : []
}

/** I4: what the log holds, every node of NATS holds, and nothing else, once all have caught up. */
const nodeComplaints = ({ runs, nodes }: WaveHistory): Violation[] =>
  nodes.flatMap(({ node, logs }): Violation[] => {
    if (logs === null) return [{ invariant: 'I4', run: 'all', what: `${node} could not be read` }]
    return runs.flatMap(({ run, log }): Violation[] => {
      const wanted = eventsOf(log)
      const found = eventsOf(logs.get(run) ?? [])
      const at = wanted.findIndex((one, place) => one !== found[place])
      if (at === -1 && wanted.length === found.length) return []
      const what = `${node} has ${found.length} of ${wanted.length} events, the first that differs is number ${(at === -1 ? wanted.length : at) + 1}`
      return [{ invariant: 'I4', run, what }]
    })
  })

const eventsOf = (log: readonly LogEntry[]): string[] =>
  log.flatMap((entry) => (entry.kind === 'event' ? [`${entry.sequence} ${entry.event.index} ${entry.event.data}`] : []))
