import { expect, test } from 'vitest'
import { nameOf, schedule, type Scale } from './schedule.ts'

const scale: Scale = {
  lengthMs: 60_000,
  relays: 3,
  edges: 2,
  nodes: 1,
  jobs: 8,
  disk: false,
  longestMs: 5000,
  betweenMs: [300, 1000],
  spares: false,
}
const kindsOf = (faults: ReturnType<typeof schedule>) =>
  new Set(faults.map((fault) => ('role' in fault ? `${fault.kind} ${fault.role}` : fault.kind)))
const both = (...kinds: string[]) => kinds.flatMap((kind) => [`${kind} relay`, `${kind} edge`])

test('the same seed makes the same schedule, another seed another', () => {
  expect(schedule(7, scale)).toEqual(schedule(7, scale))
  expect(schedule(7, scale)).not.toEqual(schedule(8, scale))
})

test('every kind of fault happens, in order of time, within the length, and a quarter of it is quiet', () => {
  const always = [
    ...both('kill', 'pause', 'terminate', 'cut-off', 'part', 'delay', 'clock'),
    'kill nats',
    'pause nats',
    'terminate nats',
    'kill-relays',
    'hold relay',
    'half-open-clients',
    'half-open-agents',
    'dead-clients',
    'cut-agent',
    'upstream',
  ]
  for (let seed = 1; seed <= 200; seed++) {
    const faults = schedule(seed, scale)
    const slices = ['slice relay', 'slice edge']
    expect([...kindsOf(faults)].filter((kind) => !slices.includes(kind)).toSorted()).toEqual(always.toSorted())
    expect(faults.map(({ atMs }) => atMs)).toEqual(faults.map(({ atMs }) => atMs).toSorted((one, other) => one - other))
    expect(faults.every(({ atMs }) => atMs < scale.lengthMs)).toBe(true)
    expect(new Set(faults.map(({ atMs }) => Math.floor((4 * atMs) / scale.lengthMs))).size).toBe(3)
    expect(faults.every((fault) => !('forMs' in fault) || fault.forMs <= scale.longestMs)).toBe(true)
  }
})

test('a cluster is parted, a small disk filled', () => {
  const kinds = kindsOf(schedule(1, { ...scale, nodes: 3, disk: true }))
  expect([...kinds]).toEqual(expect.arrayContaining(['part-nats', 'full-disk']))
})

test('with spares the last relay and the last edge are never stopped', () => {
  for (let seed = 1; seed <= 200; seed++) {
    for (const fault of schedule(seed, { ...scale, spares: true })) {
      expect(fault.kind).not.toBe('kill-relays')
      if (fault.kind !== 'kill' && fault.kind !== 'terminate') continue
      expect(fault.role === 'nats' || fault.number < (fault.role === 'relay' ? 2 : 1), nameOf(fault)).toBe(true)
    }
  }
})
