import type { StreamInfo } from '@nats-io/jetstream'
import { nanos } from '@nats-io/nats-core'
import { expect, test } from 'vitest'
import { isLed } from './led.ts'

const info = (leader: string, ...activeMs: number[]) =>
  ({
    config: { num_replicas: activeMs.length + 1 },
    cluster: { leader, replicas: activeMs.map((ms) => ({ active: nanos(ms) })) },
  }) as unknown as StreamInfo

test.each([
  ['one replica', info(''), true],
  ['a leader that has just heard both others', info('n1', 10, 900), true],
  ['a leader that has heard one of two others', info('n1', 60_000, 900), true],
  ['a leader that has heard none for longer than they wait for it', info('n1', 4000, 60_000), false],
  ['a leader that has never heard the others', info('n1', 0, 0), false],
  ['a replica that answers because there is no leader', info('', 10, 10), false],
])('%s: is its word the word of the stream?', (_, one, led) => {
  expect(isLed(one)).toBe(led)
})
