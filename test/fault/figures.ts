import type { LogEntry, RunHistory } from '../kit/history.ts'
import { isLogged } from '../kit/sse-client.ts'
import type { Inflicted } from './inflict.ts'
import type { WaveResult } from './wave.ts'

/** What faults of one kind cost, over all waves. */
export type Figure = {
  faults: number
  /** From the fault to the first event that the next owner of a hurt run stored. */
  readonly takeoversMs: number[]
  /** From the fault to the first event at a client of a hurt run or edge. */
  readonly firstEventsMs: number[]
  /** Connections opened by clients from this fault to the next one. */
  reconnects: number
  /** Living, reachable relays that others took for dead. */
  falseSuspicions: number
  /** Events that agents sent again. */
  readAgain: number
}

/** A takeover that begins later than this after its fault was mended has another cause. */
const CAUSED_MS = 3000

/** Adds what one wave has seen to the figures, by the name of the fault that came last before it. */
export function addFigures(
  figures: Map<string, Figure>,
  { history, faults }: { readonly history: Pick<WaveResult['history'], 'runs'>; readonly faults: readonly Inflicted[] },
  outputs: ReadonlyMap<string, string>,
): void {
  const of = (name: string): Figure => {
    const known = figures.get(name)
    if (known !== undefined) return known
    const fresh = { faults: 0, takeoversMs: [], firstEventsMs: [], reconnects: 0, falseSuspicions: 0, readAgain: 0 }
    figures.set(name, fresh)
    return fresh
  }
  const inOrder = faults.toSorted((one, other) => one.fromMs - other.fromMs)
  const before = (atMs: number) => inOrder.findLast(({ fromMs }) => fromMs <= atMs)
  for (const fault of inOrder) {
    const figure = of(fault.name)
    figure.faults++
    if (fault.hurt.some((name) => name.startsWith('edge-'))) addReturns(figure, fault, history.runs)
  }
  for (const run of history.runs) {
    for (const takeover of takeovers(run)) {
      const cause = causeOf(takeover, inOrder)
      if (cause === undefined) continue
      of(cause.name).takeoversMs.push(takeover.storedAtMs - cause.fromMs)
      if (takeover.seenAtMs !== null) of(cause.name).firstEventsMs.push(takeover.seenAtMs - cause.fromMs)
    }
  }
  for (const { jobs, clients } of history.runs) {
    for (const { openings } of clients)
      for (const { atMs } of openings.slice(1)) of(before(atMs)?.name ?? 'nothing').reconnects++
    for (const { connections, events } of jobs) {
      // What went out beyond the emission went out twice; the connections after the first are the ones that asked for it.
      const sent = connections.reduce((sum, one) => sum + (one.sent ?? 0), 0)
      let again = Math.max(0, sent - events.length)
      for (const one of connections.slice(1)) {
        const part = Math.min(again, one.sent ?? 0)
        again -= part
        of(before(one.openedAtMs)?.name ?? 'nothing').readAgain += part
      }
    }
  }
  for (const atMs of falseSuspicions(outputs, inOrder)) {
    // What was said in an earlier wave is counted there.
    const fault = before(atMs)
    if (fault !== undefined) of(fault.name).falseSuspicions++
  }
}

type Takeover = {
  /** Who owned the run before. */
  readonly from: string
  /** When the new owner's record, and its first event, were stored, and when the first client had that event. */
  readonly takenAtMs: number
  readonly storedAtMs: number
  readonly seenAtMs: number | null
}

/** Each change of a run's epoch that an event followed; the same relay may be the owner again. */
function takeovers({ log, clients }: RunHistory): Takeover[] {
  const found: Takeover[] = []
  let owner: Extract<LogEntry, { kind: 'owner' }> | null = null
  let before = null as { readonly epoch: number; readonly relay: string } | null
  for (const entry of log) {
    if (entry.kind === 'owner') {
      owner = entry
      continue
    }
    const { epoch, index, sequence } = entry.event
    if (owner === null || epoch !== owner.sequence || epoch === before?.epoch) continue
    if (before !== null) {
      const frames = clients.flatMap((client) => client.frames.filter(({ id }) => id === `${sequence}-${index}`))
      found.push({
        from: before.relay,
        takenAtMs: owner.storedAtMs ?? NaN,
        storedAtMs: entry.storedAtMs ?? NaN,
        seenAtMs: frames.length === 0 ? null : Math.min(...frames.map(({ atMs }) => atMs)),
      })
    }
    before = { epoch, relay: owner.owner.relay }
  }
  return found
}

/** The last fault that hurt the former owner; one that can part nobody from anything only where there is no other. */
function causeOf({ from, takenAtMs }: Takeover, inOrder: readonly Inflicted[]): Inflicted | undefined {
  const hurting = inOrder.filter(
    ({ hurt, fromMs, toMs }) => hurt.includes(from) && fromMs <= takenAtMs && takenAtMs <= toMs + CAUSED_MS,
  )
  return hurting.findLast(({ fault }) => !['clock', 'delay', 'slice'].includes(fault.kind)) ?? hurting.at(-1)
}

/** Clients that sat on a hurt edge and came back elsewhere: when did they get their next event? */
function addReturns(figure: Figure, { fromMs, toMs }: Inflicted, runs: readonly RunHistory[]): void {
  for (const { frames, openings } of runs.flatMap(({ clients }) => clients)) {
    const back = openings.find(({ atMs, connection }) => atMs > fromMs && atMs < toMs + CAUSED_MS && connection > 1)
    if (back === undefined) continue
    const first = frames.find((frame) => frame.connection >= back.connection && isLogged(frame))
    if (first !== undefined) figure.firstEventsMs.push(first.atMs - fromMs)
  }
}

/**
 * When a relay took another for dead that nothing was wrong with just then: it had not been hurt in the last ten
 * seconds, and neither had whoever said so, nor NATS.
 */
function falseSuspicions(outputs: ReadonlyMap<string, string>, faults: readonly Inflicted[]): number[] {
  const hurtAt = (name: string, atMs: number) =>
    faults.some(({ hurt, fromMs, toMs }) => hurt.includes(name) && fromMs <= atMs && atMs <= toMs + 10_000)
  return [...outputs].flatMap(([accuser, output]) =>
    output.split('\n').flatMap((line) => {
      if (!line.includes('"peer.dead"')) return []
      const { peer, time } = JSON.parse(line) as { peer: string | null; time: string | number }
      const atMs = new Date(time).getTime()
      return peer === null || hurtAt(peer, atMs) || hurtAt(accuser, atMs) ? [] : [atMs]
    }),
  )
}

const quantile = (values: readonly number[], part: number): number =>
  values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? NaN

const spread = (values: readonly number[]): string =>
  values.length === 0 ? '-' : [0.5, 0.99, 1].map((part) => Math.round(quantile(values, part))).join(' / ')

/** The figures as a table of Markdown. */
export function figuresTable(figures: ReadonlyMap<string, Figure>): string {
  const rows = [...figures]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, one]) => [
      name,
      one.faults,
      `${spread(one.takeoversMs)} (${one.takeoversMs.length})`,
      `${spread(one.firstEventsMs)} (${one.firstEventsMs.length})`,
      one.reconnects,
      one.falseSuspicions,
      one.readAgain,
    ])
  const head = [
    'fault',
    'times',
    'takeover p50 / p99 / max ms (n)',
    'first event at a client ms (n)',
    'reconnects',
    'false suspicions',
    'read again',
  ]
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}
