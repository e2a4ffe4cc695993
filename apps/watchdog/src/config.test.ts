import { expect, test } from 'vitest'
import { ConfigError } from '@baton/service/config'
import { watchdogConfig } from './config.ts'

const complaints = (environment: Record<string, string>): readonly string[] => {
  try {
    watchdogConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.complaints
    throw error
  }
}

test('without variables it alerts, looks every 10 s and judges by an hour', () => {
  const config = watchdogConfig({})
  expect(config).toMatchObject({ onOrphan: 'alert', sweepMs: 10_000, webhook: null, healthPort: 0 })
  expect(config.thresholds).toEqual({
    quietMs: 60_000,
    stallMs: 3_600_000,
    disconnectMs: 300_000,
    orphanMs: 3_600_000,
    ownerlessMs: 15_000,
  })
})

test('it looks often enough for the smallest threshold, and not without pause', () => {
  expect(watchdogConfig({ BATON_QUIET_MS: '3000' }).sweepMs).toBe(500)
  expect(watchdogConfig({ BATON_QUIET_MS: '1' }).sweepMs).toBe(200)
})

test('no threshold may lie beyond the time a heartbeat is kept: its absence would prove nothing', () => {
  expect(complaints({ BATON_DISCONNECT_MS: '300001', BATON_STALL_MS: '4000000', BATON_ORPHAN_MS: '4000000' })).toEqual([
    'BATON_DISCONNECT_MS: must be at most BATON_LIVENESS_TTL_MS (300000)',
    'BATON_STALL_MS: must be at most BATON_PROGRESS_TTL_MS (3600000)',
    'BATON_ORPHAN_MS: must be at most BATON_PROGRESS_TTL_MS (3600000)',
  ])
})

test.each([
  [{ BATON_ON_ORPHAN: 'ignore' }, 'BATON_ON_ORPHAN'],
  [{ BATON_WEBHOOK_URL: 'ftp://x/' }, 'BATON_WEBHOOK_URL: must be an http or https URL'],
  [{ BATON_WEBHOOK_URL: 'here' }, 'BATON_WEBHOOK_URL'],
  [{ BATON_WEBHOOK_URL: 'https://user:key@hooks.example/' }, 'BATON_WEBHOOK_URL: must hold no user or password'],
  [{ BATON_CLAIM_TTL_MS: '4000' }, 'BATON_CLAIM_TTL_MS: must be at least 3'],
  [{ BATON_STAL_MS: '1' }, 'BATON_STAL_MS: no such variable'],
])('%o is refused', (environment, complaint) => {
  expect(complaints(environment as Record<string, string>)).toEqual([expect.stringContaining(complaint)])
})

test('variables of other apps may stand beside its own', () => {
  expect(complaints({ BATON_PORT: '80', BATON_RELAY_ID: 'a', BATON_SECRET_X: 'y' })).toEqual([])
})
