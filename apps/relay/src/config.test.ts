import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { ConfigError } from '@baton/service/config'
import { relayConfig } from './config.ts'

function complaints(environment: Record<string, string>): readonly string[] {
  try {
    relayConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.complaints
    throw error
  }
}

describe('the variables of a relay', () => {
  test('need not be given', () => {
    expect(relayConfig({})).toMatchObject({
      relay: hostname(),
      capacity: 2000,
      healthPort: 0,
      claim: { ttlMs: 15_000, renewMs: 5000 },
      beatMs: 200,
      heartbeatWriteMs: 5000,
      livenessTtlMs: 300_000,
      progressTtlMs: 3_600_000,
      upstream: { silenceMs: 1_800_000, giveUpMs: 1_800_000, allow: [] },
    })
  })

  test('that are wrong are all named before anything starts', () => {
    const environment = {
      BATON_BEAT_MS: 'often',
      BATON_CLAIM_TTL_MS: '14999',
      BATON_UPSTREAM_ALLOW: '127.0.0.1,10.0.0.0/99,agent.internal,999.1.1.1,???',
    }
    expect(complaints(environment)).toEqual([
      'BATON_BEAT_MS: must be a whole number',
      'BATON_CLAIM_TTL_MS: must be at least 3 × BATON_CLAIM_RENEW_MS (15000)',
      ...['10.0.0.0/99', '999.1.1.1', '???'].map(
        (entry) => `BATON_UPSTREAM_ALLOW: ${entry} is neither a network (10.0.0.0/8), an address nor a host name`,
      ),
    ])
  })

  test('may list networks, addresses and names to allow', () => {
    const allow = ['10.0.0.0/8', '127.0.0.1', '::1', 'fd00::/8', 'agent.internal', 'localhost']
    expect(relayConfig({ BATON_UPSTREAM_ALLOW: allow.join(', ') }).upstream.allow).toEqual(allow)
  })
})

test.each(['BATON_CLAIM_RENEW_MS', 'BATON_HEARTBEAT_WRITE_MS', 'BATON_UPSTREAM_SILENCE_MS'])(
  '%s is no longer than a timer can wait: a longer one would end at once, again and again',
  (name) => {
    const longest = 2 ** 31 - 1
    const claimTtl = { BATON_CLAIM_TTL_MS: String(3 * longest) }
    expect(() => relayConfig({ ...claimTtl, [name]: String(longest) })).not.toThrow()
    expect(() => relayConfig({ ...claimTtl, [name]: String(longest + 1) })).toThrow(
      `${name}: must be at most ${longest}`,
    )
  },
)
