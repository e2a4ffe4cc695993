import { describe, expect, test } from 'vitest'
import { claimDelayMs, rank, rebalance, share } from '@baton/core/balance'
import { Chance } from './chance.ts'

const MOVES_AT_ONCE = 10
const ROUNDS = 60

type Peer = { readonly boot: string; readonly runs: Set<string>; readonly heard: Map<string, number> }

/**
 * Relays that hear each other's beats late, ask the richest for runs, and go for every run that is free: who comes first
 * has it. `deaf`: a flaw: no beat arrives any more.
 */
class Cluster {
  readonly #chance: Chance
  readonly #deaf: boolean
  readonly peers: Peer[] = []
  moves = 0

  constructor(seed: number, deaf = false) {
    this.#chance = new Chance(seed)
    this.#deaf = deaf
    for (let at = 0; at < 2 + this.#chance.below(4); at++) this.join(`boot-${at}`)
    const runs = this.#chance.below(200)
    for (let at = 0; at < runs; at++) this.#claim(`run-${at}`)
  }

  join(boot: string): void {
    this.peers.push({ boot, runs: new Set(), heard: new Map() })
  }

  get runs(): number {
    return this.peers.reduce((sum, { runs }) => sum + runs.size, 0)
  }

  /** One is gone; what it had is free. */
  leave(): void {
    const [gone] = this.peers.splice(this.#chance.below(this.peers.length), 1)
    for (const { heard } of this.peers) heard.delete(gone?.boot ?? '')
    for (const run of gone?.runs ?? []) this.#claim(run)
  }

  beat(peer: Peer): void {
    for (const other of this.peers) {
      const isHeard = other === peer || (!this.#deaf && this.#chance.is(0.8))
      if (isHeard) other.heard.set(peer.boot, peer.runs.size)
    }
  }

  /** The first to try has it; the network makes those that try almost at once change places. */
  #claim(run: string): void {
    const boots = this.peers.map(({ boot }) => boot)
    const fair = share(this.runs + 1, boots.length)
    const tries = this.peers.map((peer) => {
      const place = rank(run, peer.boot, boots)
      return { peer, atMs: claimDelayMs({ rank: place, owned: peer.runs.size, share: fair }) + this.#chance.below(60) }
    })
    const [first] = tries.sort((one, other) => one.atMs - other.atMs)
    first?.peer.runs.add(run)
  }

  balance(peer: Peer): void {
    const loads = [...peer.heard].map(([boot, runs]) => ({ boot, runs, draining: false }))
    const move = rebalance(peer.boot, loads, MOVES_AT_ONCE)
    const from = this.peers.find(({ boot }) => boot === move?.from)
    if (move === null || from === undefined) return
    const given = [...from.runs].slice(-move.runs)
    this.moves += given.length
    for (const run of given) from.runs.delete(run)
    for (const run of given) this.#claim(run)
  }

  /** Every relay beats and looks once, in any order. */
  round(): void {
    const turns = this.peers.flatMap((peer) => [() => this.beat(peer), () => this.balance(peer)])
    while (turns.length > 0) turns.splice(this.#chance.below(turns.length), 1)[0]?.()
  }

  get isEven(): boolean {
    const mean = this.runs / this.peers.length
    return this.peers.every(({ runs }) => runs.size - mean <= Math.max(1, mean * 0.1))
  }
}

/** Some rounds, a relay more, some rounds, one less; then nothing but time. Answers the moves of its second half. */
function settled(cluster: Cluster): number {
  for (let round = 0; round < 5; round++) cluster.round()
  cluster.join('boot-new')
  for (let round = 0; round < 5; round++) cluster.round()
  cluster.leave()
  for (let round = 0; round < ROUNDS; round++) cluster.round()
  const before = cluster.moves
  for (let round = 0; round < ROUNDS; round++) cluster.round()
  return cluster.moves - before
}

describe('relays that balance their runs', () => {
  test('come to rest, evenly loaded, after few moves, whatever beats they miss', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const cluster = new Cluster(seed)
      expect(settled(cluster), `seed ${seed}: moves that go on and on`).toBe(0)
      expect(cluster.isEven, `seed ${seed}: ${cluster.peers.map(({ runs }) => runs.size).join(' ')}`).toBe(true)
      expect(cluster.moves, `seed ${seed}: moves for ${cluster.runs} runs`).toBeLessThanOrEqual(2 * cluster.runs + 10)
    }
  })

  test('would be found out if they did not: without beats they stay uneven or never rest', () => {
    const isFine = (seed: number): boolean => {
      const cluster = new Cluster(seed, true)
      return settled(cluster) === 0 && cluster.isEven
    }
    expect(Array.from({ length: 50 }, (_, at) => at + 1).every(isFine)).toBe(false)
  })
})
