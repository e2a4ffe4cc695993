import type { Direction } from '../kit/proxy.ts'

type Role = 'relay' | 'edge' | 'nats'

/** One thing that goes wrong, at a moment of the run, counted from its start. Of the NATS nodes, number 0 is the leader. */
export type Fault = { readonly atMs: number } & (
  | { readonly kind: 'kill' | 'terminate'; readonly role: Role; readonly number: number; readonly downMs: number }
  | { readonly kind: 'pause'; readonly role: Role; readonly number: number; readonly forMs: number }
  | { readonly kind: 'kill-relays'; readonly downMs: number }
  /**
   * Between a process and NATS: connections are reset and none is let through; bytes on their way are held and come
   * late; every byte comes late; bytes come a few at a time.
   */
  | {
      readonly kind: 'cut-off' | 'hold' | 'delay' | 'slice'
      readonly role: 'relay' | 'edge'
      readonly number: number
      readonly forMs: number
    }
  /** Packets between a process and NATS are lost, both ways or one. */
  | {
      readonly kind: 'part'
      readonly role: 'relay' | 'edge'
      readonly number: number
      readonly way: Direction
      readonly forMs: number
    }
  /** A node of NATS loses the other two, both ways or one. */
  | { readonly kind: 'part-nats'; readonly number: number; readonly way: Direction; readonly forMs: number }
  /** Connections of an edge's clients, or of all agents, go on without a byte and without an end. */
  | { readonly kind: 'half-open-clients'; readonly number: number; readonly forMs: number }
  | { readonly kind: 'half-open-agents'; readonly forMs: number }
  | { readonly kind: 'cut-agent'; readonly job: number }
  /** The agent is cut, and answers this before it streams again. */
  | { readonly kind: 'upstream'; readonly job: number; readonly answers: string }
  /** Clients that ask for everything and never read. */
  | { readonly kind: 'dead-clients'; readonly number: number; readonly count: number; readonly forMs: number }
  | { readonly kind: 'full-disk'; readonly forMs: number }
  | { readonly kind: 'clock'; readonly role: 'relay' | 'edge'; readonly number: number; readonly shiftMs: number }
)

export type Scale = {
  readonly lengthMs: number
  readonly relays: number
  readonly edges: number
  readonly nodes: number
  readonly jobs: number
  /** Is there a disk that may be filled? */
  readonly disk: boolean
  /** The longest a fault may last. */
  readonly longestMs: number
  /** Between one fault and the next. */
  readonly betweenMs: readonly [number, number]
  /** The last relay and the last edge are never killed: whatever grows has to show in them. */
  readonly spares: boolean
}

/** Numbers in [0, 1) that depend on the seed alone (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** What a paused process sleeps through: nothing, a suspicion, a whole claim. */
const PAUSES_MS = [200, 2000, 2000, 30_000] as const
const WAYS: readonly Direction[] = ['both', 'up', 'down']
const ANSWERS = ['500x3', '503,redirect', 'redirect', 'wrong-type', '404,503', 'drop,429'] as const
const SHIFTS_MS = [3_600_000, -3_600_000, 20_000, -20_000] as const

/**
 * What goes wrong in one fault run: the same seed, the same schedule. Every kind of fault happens before any comes
 * again, a process may be hurt again while it, or another, is still down, and one quarter of the time nothing begins.
 */
export function schedule(seed: number, scale: Scale): Fault[] {
  const random = randomFrom(seed)
  const between = (from: number, to: number) => Math.round(from + random() * (to - from))
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const below = (count: number) => Math.floor(random() * count)
  const long = (fromMs: number, toMs: number) => Math.min(between(fromMs, toMs), scale.longestMs)
  const counts = { relay: scale.relays, edge: scale.edges, nats: scale.nodes }
  const killable = (role: Role) => counts[role] - (scale.spares && role !== 'nats' ? 1 : 0)
  const roles = ['relay', 'edge', 'nats'] as const
  const apps = ['relay', 'edge'] as const

  const kinds: (() => object)[] = [
    ...roles.flatMap((role) => [
      () => ({ kind: 'kill', role, number: below(killable(role)), downMs: between(50, 3000) }),
      () => ({ kind: 'terminate', role, number: below(killable(role)), downMs: between(50, 2000) }),
      () => ({ kind: 'pause', role, number: below(counts[role]), forMs: pauseMs() }),
    ]),
    () => ({ kind: 'kill', role: 'nats', number: below(scale.nodes), downMs: between(50, 3000) }),
    ...(scale.spares ? [] : [() => ({ kind: 'kill-relays', downMs: between(50, 2000) })]),
    ...apps.flatMap((role) => [
      () => ({ kind: 'cut-off', role, number: below(counts[role]), forMs: long(100, 5000) }),
      () => ({ kind: 'part', role, number: below(counts[role]), way: pick(WAYS), forMs: long(500, 15_000) }),
      () => ({ kind: 'delay', role, number: below(counts[role]), forMs: long(1000, 10_000) }),
      () => ({ kind: 'clock', role, number: below(counts[role]), shiftMs: pick(SHIFTS_MS) }),
    ]),
    () => ({ kind: 'hold', role: 'relay', number: below(scale.relays), forMs: long(100, 5000) }),
    () => ({
      kind: 'slice',
      role: pick(apps),
      number: below(Math.min(scale.relays, scale.edges)),
      forMs: long(500, 5000),
    }),
    () => ({ kind: 'half-open-clients', number: below(scale.edges), forMs: long(2000, 20_000) }),
    () => ({ kind: 'half-open-agents', forMs: long(2000, 20_000) }),
    () => ({ kind: 'dead-clients', number: below(scale.edges), count: 20, forMs: long(2000, 20_000) }),
    ...[1, 2].map(() => () => ({ kind: 'cut-agent', job: below(scale.jobs) })),
    ...[1, 2].map(() => () => ({ kind: 'upstream', job: below(scale.jobs), answers: pick(ANSWERS) })),
    ...(scale.disk ? [() => ({ kind: 'full-disk', forMs: long(500, 5000) })] : []),
    ...(scale.nodes === 1
      ? []
      : [0, 0, 1].map((number) => () => ({ kind: 'part-nats', number, way: pick(WAYS), forMs: long(1000, 20_000) }))),
  ]
  const quiet = below(4)
  const isQuiet = (atMs: number) => Math.floor((atMs / scale.lengthMs) * 4) === quiet

  const faults: Fault[] = []
  let bag: (() => object)[] = []
  for (let atMs = between(1000, 2000); atMs < scale.lengthMs; atMs += between(...scale.betweenMs)) {
    if (isQuiet(atMs)) continue
    if (bag.length === 0) bag = [...kinds]
    const [make] = bag.splice(below(bag.length), 1)
    if (make !== undefined) faults.push({ atMs, ...make() } as Fault)
  }
  return faults

  function pauseMs(): number {
    return Math.min(pick(PAUSES_MS), scale.longestMs)
  }
}

/** A fault's name in the figures: pauses of different lengths are different things. */
export function nameOf(fault: Fault): string {
  const role = 'role' in fault ? ` ${fault.role}` : ''
  if (fault.kind === 'pause') return `pause${role} ${fault.forMs / 1000} s`
  const nth = 'number' in fault && (fault.kind === 'part-nats' || ('role' in fault && fault.role === 'nats'))
  const which = nth ? (fault.number === 0 ? ' leader' : ' follower') : ''
  const way = 'way' in fault && fault.way !== 'both' ? ` ${fault.way}` : ''
  return `${fault.kind}${role}${which}${way}`
}
