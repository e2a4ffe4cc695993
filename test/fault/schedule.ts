/** One thing that goes wrong, at a moment of the run, counted from its start. */
export type Fault = { readonly atMs: number } & (
  | {
      readonly kind: 'kill' | 'terminate'
      readonly role: 'relay' | 'edge'
      readonly number: number
      readonly downMs: number
    }
  | { readonly kind: 'pause'; readonly role: 'relay' | 'edge'; readonly number: number; readonly forMs: number }
  /** A relay and NATS: the connection is reset and none is let through, or bytes of the relay are held and come late. */
  | { readonly kind: 'cut-off' | 'hold'; readonly number: number; readonly forMs: number }
  | { readonly kind: 'kill-nats'; readonly downMs: number }
  | { readonly kind: 'cut-agent'; readonly job: number }
)

export type Scale = {
  readonly lengthMs: number
  readonly relays: number
  readonly edges: number
  readonly jobs: number
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

const BETWEEN_MS = { from: 300, to: 2500 } as const

/**
 * What goes wrong in one fault run: the same seed, the same schedule. Every kind of fault happens, and a process may
 * be hurt again while it, or another, is still down.
 */
export function schedule(seed: number, scale: Scale): Fault[] {
  const random = randomFrom(seed)
  const between = (from: number, to: number) => Math.round(from + random() * (to - from))
  const pick = (count: number) => Math.floor(random() * count)
  const faults: Fault[] = []
  const kinds: (() => object)[] = [
    one('kill', 'relay'),
    one('kill', 'edge'),
    one('pause', 'relay'),
    one('pause', 'edge'),
    one('terminate', 'relay'),
    one('terminate', 'edge'),
    parted('cut-off'),
    parted('hold'),
    nats,
    nats,
    cut,
    cut,
    cut,
  ]
  // Every kind once before any comes twice, then again in another order.
  let bag: (() => object)[] = []
  for (let atMs = between(1000, 2000); atMs < scale.lengthMs; atMs += between(BETWEEN_MS.from, BETWEEN_MS.to)) {
    if (bag.length === 0) bag = [...kinds]
    const [make] = bag.splice(pick(bag.length), 1)
    if (make !== undefined) faults.push({ atMs, ...make() } as Fault)
  }
  return faults

  function one(kind: 'kill' | 'pause' | 'terminate', role: 'relay' | 'edge') {
    return () => {
      const number = pick(role === 'relay' ? scale.relays : scale.edges)
      return kind === 'pause'
        ? { kind, role, number, forMs: between(200, 5000) }
        : { kind, role, number, downMs: between(100, 3000) }
    }
  }
  function parted(kind: 'cut-off' | 'hold') {
    return () => ({ kind, number: pick(scale.relays), forMs: between(100, 3000) })
  }
  function nats() {
    return { kind: 'kill-nats', downMs: between(50, 1500) }
  }
  function cut() {
    return { kind: 'cut-agent', job: pick(scale.jobs) }
  }
}
