import { expect, test } from 'vitest'
import { SilenceClock } from './silence-clock.ts'

const minute = 60_000

function heard(silenceMs: number, keepalivesMs: readonly number[]): SilenceClock {
  const clock = new SilenceClock(silenceMs)
  clock.open(0)
  for (const atMs of keepalivesMs) {
    clock.heard(atMs)
    clock.keepalive(atMs)
  }
  return clock
}

test('silence is allowed for as long as is configured', () => {
  const clock = new SilenceClock(30 * minute)
  clock.open(1000)
  expect(clock.leftMs(1000)).toBe(30 * minute)
  clock.heard(5000)
  expect(clock.leftMs(5000 + 30 * minute)).toBe(0)
})

test('one keepalive says nothing of the next', () => {
  expect(heard(30 * minute, [15_000]).limitMs).toBe(30 * minute)
})

test('after keepalives it is three times the longest interval between two, at least 90 s', () => {
  expect(heard(30 * minute, [0, 15_000, 30_000]).limitMs).toBe(90_000)
  expect(heard(30 * minute, [0, 15_000, 75_000, 90_000]).limitMs).toBe(180_000)
})

test('comments that come together are one sign, and no rhythm: many agents greet with two', () => {
  expect(heard(30 * minute, [0, 1, 900]).limitMs).toBe(30 * minute)
  expect(heard(30 * minute, [0, 1, 15_000, 30_000]).limitMs).toBe(90_000)
})

test('who brought no rhythm until it was cut has none any more: it is not cut again and again', () => {
  const clock = heard(30 * minute, [0, 15_000, 30_000])
  clock.cut()
  clock.open(2 * minute)
  expect(clock.limitMs).toBe(90_000)
  clock.keepalive(2 * minute)
  clock.cut()
  clock.open(4 * minute)
  expect(clock.limitMs).toBe(30 * minute)
})

test('it is never longer than what is configured, and the 90 s shrink with a shorter one', () => {
  expect(heard(30 * minute, [0, 20 * minute]).limitMs).toBe(30 * minute)
  expect(heard(2000, [0, 10]).limitMs).toBe(100)
})

test('the time between two connections is no interval, and what was learnt stays', () => {
  const clock = heard(30 * minute, [0, 40_000])
  clock.open(50 * minute)
  clock.keepalive(51 * minute)
  expect(clock.limitMs).toBe(120_000)
})

test('while we do not listen, the silence is not the agent’s', () => {
  const clock = heard(1000, [])
  clock.busy()
  expect(clock.leftMs(50_000)).toBe(1000)
  clock.heard(50_000)
  expect(clock.leftMs(50_400)).toBe(600)
})
