import { expect, test } from 'vitest'
import { Observation } from './observation.ts'

const here = { owned: true, connected: true }
const away = { owned: false, connected: false }
const seen = (presence: typeof here) => new Map([['r', presence]])

test('observing begins at the first look, and anew after an interruption', () => {
  const observation = new Observation(500)
  expect(observation.observedMs(1000)).toBe(0)
  observation.looked(1000, seen(here))
  observation.looked(1500, seen(here))
  expect(observation.observedMs(1700)).toBe(700)
  observation.interrupt()
  expect(observation.observedMs(1900)).toBe(0)
  observation.looked(2000, seen(here))
  expect(observation.observedMs(2100)).toBe(100)
})

test('a process that slept has not observed', () => {
  const observation = new Observation(1000)
  observation.looked(0, seen(here))
  observation.looked(4999, seen(here))
  expect(observation.observedMs(4999)).toBe(4999)
  observation.looked(10_001, seen(here))
  expect(observation.observedMs(10_001)).toBe(0)
})

test('what is missing at the first look is missing for who knows how long, later for as long as we have seen', () => {
  const observation = new Observation(500)
  observation.looked(1000, seen(away))
  expect(observation.ages('r', 1200)).toEqual({ registeredAgeMs: null, ownerlessMs: Infinity, unconnectedMs: Infinity })
  observation.looked(1500, seen(here))
  expect(observation.ages('r', 1500)).toEqual({ registeredAgeMs: null, ownerlessMs: 0, unconnectedMs: 0 })
  observation.looked(2000, seen(away))
  observation.looked(2500, seen(away))
  expect(observation.ages('r', 2600)).toMatchObject({ ownerlessMs: 600, unconnectedMs: 600 })
})

test('a run that came while we looked is as old as that; one that is gone is forgotten', () => {
  const observation = new Observation(500)
  observation.looked(0, new Map())
  observation.looked(500, seen(away))
  expect(observation.ages('r', 900)).toEqual({ registeredAgeMs: 400, ownerlessMs: 400, unconnectedMs: 400 })
  observation.looked(1000, new Map())
  observation.looked(1500, seen(away))
  expect(observation.ages('r', 1500)).toMatchObject({ registeredAgeMs: 0, ownerlessMs: 0 })
})

test('before the first look nothing is known of anybody, and it may be bad', () => {
  const unknown = { registeredAgeMs: null, ownerlessMs: Infinity, unconnectedMs: Infinity }
  expect(new Observation(500).ages('r', 1000)).toEqual(unknown)
})
