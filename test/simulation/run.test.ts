import { describe, expect, test } from 'vitest'
import { GAP } from '@baton/core/event'
import { check } from '../kit/checker.ts'
import type { Violation } from '../kit/history.ts'
import { World, type Flaw } from './world.ts'

/**
 * The decisions of libs/core (claim, settle, cursor, resume, servable, splice), played in one thread against models of
 * the log, the claims, agents of every kind and clients, under thousands of interleavings: a pause before and after
 * every request, answers lost, writes that arrive late, replicas behind, kills, wrong suspicions, cuts, a log that
 * forgets. What comes out is judged by the same checker as the histories of real processes.
 *
 * A failure names its seed: `BATON_SIMULATION_SEED=<seed> npx vitest run --project unit test/simulation` plays it again.
 */
const SEEDS = 1000
const LIMIT_MS = 240_000

const given = process.env['BATON_SIMULATION_SEED']
const batches = given === undefined ? [0, 1, 2, 3].map((at) => [1 + at * SEEDS, (at + 1) * SEEDS] as const) : []

const play = (seed: number, flaw: Flaw | null = null): { world: World; violations: Violation[] } => {
  const world = new World(seed, flaw)
  return { violations: check(world.play(), world.allowances), world }
}

function expectPromises(seed: number): void {
  const { world, violations } = play(seed)
  if (violations.length === 0) return
  const said = violations.map(({ invariant, what }) => `${invariant} ${what}`)
  throw new Error([`seed ${seed}, after ${world.now} steps:`, ...said, 'the last of it:', ...world.trace].join('\n'))
}

describe('I1 I2 I3 I5: the decisions of the core hold every promise', () => {
  test.each(batches)('in the games of the seeds %i to %i', { timeout: LIMIT_MS }, (from, to) => {
    for (let seed = from; seed <= to; seed++) expectPromises(seed)
  })

  if (given !== undefined) test(`in the game of the seed ${given}`, () => expectPromises(Number(given)))
})

test('the games have in them what they are played for', { timeout: LIMIT_MS }, () => {
  const counts = new Map<string, number>()
  const add = (what: string, count: number) => counts.set(what, (counts.get(what) ?? 0) + count)
  for (let seed = 1; seed <= 300; seed++) {
    const world = new World(seed)
    const { log, clients, jobs } = world.play()
    for (const [what, count] of world.counts) add(what, count)
    add('gaps', log.filter((entry) => entry.kind === 'event' && entry.event.type === GAP).length)
    add('epochs', log.filter(({ kind }) => kind === 'owner').length)
    add('resets', clients.flatMap(({ frames }) => frames).filter(({ event }) => event === 'stream.reset').length)
    add('opens', clients.flatMap(({ openings }) => openings).length)
    add('tails', jobs.flatMap(({ connections }) => connections).length)
  }
  const wanted = ['killed', 'paused until ', 'hands over', 'loses the run', 'settles an append', 'owns at epoch ']
  for (const what of [...wanted, 'gaps', 'epochs', 'resets', 'opens', 'tails']) {
    expect(counts.get(what) ?? 0, `${what}, of ${JSON.stringify([...counts])}`).toBeGreaterThan(10)
  }
})

test('a seed plays the same game each time', () => {
  const [one, again] = [play(7), play(7)]
  expect(one.world.trace).toEqual(again.world.trace)
  expect(one.world.log.entries).toEqual(again.world.log.entries)
  expect(one.world.trace).not.toEqual(play(8).world.trace)
})

describe('a world with a flaw is found out', () => {
  test.each<[Flaw, Violation['invariant']]>([
    ['appends-are-not-fenced', 'I3'],
    ['epoch-kept-after-an-unknown-outcome', 'I1'],
    ['tail-read-before-the-owner-record', 'I1'],
    ['tail-read-from-a-follower', 'I1'],
    ['checkpoint-ignored', 'I1'],
    ['splice-off-by-one', 'I2'],
    ['index-not-checked', 'I2'],
  ])('%s breaks %s', { timeout: LIMIT_MS }, (flaw, invariant) => {
    const broken = (seed: number) => play(seed, flaw).violations.some((violation) => violation.invariant === invariant)
    expect(Array.from({ length: SEEDS }, (_, at) => at + 1).some(broken)).toBe(true)
  })

  test('but no promise about the log hangs on claims: where nobody compares them, owners fence each other, and what is stored is right', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const world = new World(seed, 'claims-are-not-compared')
      const history = { ...world.play(), over: false }
      const violations = check(history, { ...world.allowances, overlapMs: Infinity })
      expect(violations, `seed ${seed}`).toEqual([])
    }
  })
})
