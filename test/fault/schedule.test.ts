import { expect, test } from 'vitest'
import { schedule } from './schedule.ts'

const scale = { lengthMs: 60_000, relays: 3, edges: 2, jobs: 8 }
const nameOf = (fault: ReturnType<typeof schedule>[number]): string =>
  'role' in fault ? `${fault.kind} ${fault.role}` : fault.kind

test('the same seed makes the same schedule, another seed another', () => {
  expect(schedule(7, scale)).toEqual(schedule(7, scale))
  expect(schedule(7, scale)).not.toEqual(schedule(8, scale))
})

test('every kind of fault happens, in order of time, within the length', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const faults = schedule(seed, scale)
    expect(new Set(faults.map(nameOf))).toEqual(
      new Set([
        'kill relay',
        'kill edge',
        'pause relay',
        'pause edge',
        'terminate relay',
        'terminate edge',
        'cut-off',
        'hold',
        'kill-nats',
        'cut-agent',
      ]),
    )
    expect(faults.map(({ atMs }) => atMs)).toEqual(faults.map(({ atMs }) => atMs).toSorted((one, other) => one - other))
    expect(faults.every(({ atMs }) => atMs < scale.lengthMs)).toBe(true)
  }
})
