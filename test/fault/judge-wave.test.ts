import { expect, test } from 'vitest'
import type { Inflicted } from './inflict.ts'
import { judgeWave } from './judge-wave.ts'

/** A run whose agent served two connections for seven seconds, from 20 s to 27 s. */
const judged = (faults: readonly Inflicted[], nodes: readonly object[] = []): string[] => {
  const connections = [
    { openedAtMs: 1000, closedAtMs: 27_000, firstEvent: null },
    { openedAtMs: 20_000, closedAtMs: 40_000, firstEvent: null },
  ]
  const jobs = [{ job: 'main', replays: 'all' as const, events: [], connections }]
  const set = { name: 'set', frames: [], openings: [], start: 'start' as const, over: false }
  const runs = [{ run: 'r', jobs, log: [], clients: [], over: false }]
  const history = { runs, set, topics: [], stored: [], published: [], heard: [], nodes, faults }
  return judgeWave(history as never).flatMap(({ invariant }) => (invariant === 'I5' ? [invariant] : []))
}

const fault = (fault: object, fromMs: number, toMs: number): Inflicted =>
  ({ name: 'a fault', fault, fromMs, toMs, hurt: [] }) as never

test.for([
  ['nothing', [], ['I5']],
  ['a relay that was paused', [fault({ kind: 'pause', role: 'relay' }, 19_000, 26_000)], []],
  ['NATS away', [fault({ kind: 'terminate', role: 'nats' }, 19_000, 26_000)], []],
  ['NATS away, and back long before', [fault({ kind: 'kill', role: 'nats' }, 19_000, 20_500)], ['I5']],
  ['an edge killed', [fault({ kind: 'kill', role: 'edge' }, 19_000, 26_000)], ['I5']],
] as const)('I5: two connections for seven seconds beside %s', ([, faults, broken]) => {
  expect(judged(faults)).toEqual(broken)
})

test('I5: of three nodes of NATS one that is away excuses nobody', () => {
  const nodes = ['nats-1', 'nats-2', 'nats-3'].map((node) => ({ node, logs: new Map() }))
  expect(judged([fault({ kind: 'pause', role: 'nats' }, 19_000, 27_000)], nodes)).toEqual(['I5'])
})
