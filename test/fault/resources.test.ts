import { expect, test } from 'vitest'
import { checkFlat, type Census, type Usage } from './resources.ts'

const usage = (over: Partial<Usage> = {}): Usage => ({
  name: 'edge-1',
  pid: 1,
  ageMs: 600_000,
  rssMiB: 150,
  sockets: 5,
  files: 25,
  timers: 8,
  ...over,
})
const censuses = (count: (at: number) => Partial<Usage>, consumers: (at: number) => number = () => 18): Census[] =>
  Array.from({ length: 12 }, (_, at) => ({ atMs: at, processes: [usage(count(at))], consumers: consumers(at) }))
const complaints = (all: readonly Census[]) => checkFlat(all).map(({ what }) => what)

test('I8: what goes up and down is flat', () => {
  expect(
    complaints(censuses((at) => ({ rssMiB: 150 + (at % 3) * 60, sockets: 5 + (at % 2) * 30, timers: 8 + (at % 4) }))),
  ).toEqual([])
})

test('I8: a process that is young again and again says nothing of growth', () => {
  expect(complaints(censuses((at) => ({ ageMs: 10_000, rssMiB: 100 + at * 100 })))).toEqual([])
})

test.each([
  ['sockets', censuses((at) => ({ sockets: 5 + at * 4 })), /edge-1: sockets: at first 17, at last 37/],
  ['timers', censuses((at) => ({ timers: 8 + at * 10 })), /edge-1: timers/],
  ['files', censuses((at) => ({ files: 25 + at * 10 })), /edge-1: files/],
  ['memory', censuses((at) => ({ rssMiB: 150 + at * 60 })), /edge-1: RSS in MiB: at first 330, at last 630/],
  [
    'consumers',
    censuses(
      () => ({}),
      (at) => 18 + at * 3,
    ),
    /consumers: at first 27, at last 42/,
  ],
] as const)('I8: %s that only grow are found', (_, all, complaint) => {
  expect(complaints(all)).toEqual([expect.stringMatching(complaint)])
})
