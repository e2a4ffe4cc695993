import { describe, expect, test } from 'vitest'
import { ConfigError } from '@baton/service/config'
import { readEdgeConfig } from './config.ts'

const complaints = (environment: Record<string, string>): readonly string[] => {
  try {
    readEdgeConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.complaints
    throw error
  }
}

const JWT = {
  BATON_AUTH: 'jwt',
  BATON_JWKS_URL: 'https://keys.example/jwks',
  BATON_JWT_ISSUERS: 'https://issuer.example',
}

test('what holds where nothing is said', () => {
  expect(readEdgeConfig({})).toMatchObject({
    host: '127.0.0.1',
    port: 8080,
    graceMs: 25_000,
    logLevel: 'info',
    nats: { servers: ['nats://127.0.0.1:4222'] },
    edge: {
      auth: null,
      heartbeatMs: 15_000,
      clientBufferBytes: 262_144,
      opensPerClient: 20,
      opensTotal: 1000,
      maxConnections: 10_000,
      publishPerSecond: 1000,
      maxAgeMs: 2_700_000,
      topicStateUrl: null,
    },
  })
})

describe('who may come in', () => {
  test('everybody on a loopback host, which is the default', () => {
    for (const host of [undefined, '127.0.0.1', '127.0.0.2', 'localhost', '::1']) {
      expect(complaints(host === undefined ? {} : { BATON_HOST: host })).toEqual([])
    }
  })

  test('on any other host somebody must have decided', () => {
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'edge.example', '127.evil.example']) {
      expect(complaints({ BATON_HOST: host })).toEqual([expect.stringContaining('BATON_AUTH: must be given')])
      expect(complaints({ BATON_HOST: host, BATON_AUTH: 'none' })).toEqual([
        expect.stringContaining('BATON_AUTH_NONE_I_KNOW=1'),
      ])
      expect(complaints({ BATON_HOST: host, BATON_AUTH: 'none', BATON_AUTH_NONE_I_KNOW: '1' })).toEqual([])
    }
  })

  test('tokens without keys, or without a word on whose they are, give no edge, and never an open one', () => {
    const keyless = [expect.stringContaining('jwt needs keys'), expect.stringContaining('BATON_JWT_ISSUERS')]
    expect(complaints({ BATON_AUTH: 'jwt' })).toEqual(keyless)
    expect(complaints({ BATON_AUTH: 'jwt', BATON_AUTH_NONE_I_KNOW: '1' })).toEqual(keyless)
    expect(complaints({ ...JWT, BATON_JWT_ISSUERS: '' })).toEqual([expect.stringContaining('BATON_JWT_ISSUERS')])
    expect(complaints({ ...JWT, BATON_JWT_ISSUERS: ' , ' })).toEqual([expect.stringContaining('BATON_JWT_ISSUERS')])
    expect(complaints({ ...JWT, BATON_JWT_KEY_FILE: '/no/such/key' })).toEqual([
      expect.stringContaining('jwt needs keys'),
    ])
    expect(complaints({ ...JWT, BATON_JWKS_URL: 'ftp://keys.example' })).toEqual([
      expect.stringContaining('BATON_JWKS_URL'),
    ])
    // It could not be fetched, and would stand in the log with every attempt.
    const [secret = ''] = complaints({ ...JWT, BATON_JWKS_URL: 'https://user:hunter2@keys.example/jwks' })
    expect(secret).toContain('BATON_JWKS_URL: must hold no user or password')
    expect(secret).not.toContain('hunter2')
    expect(complaints({ ...JWT, BATON_HOST: '0.0.0.0' })).toEqual([])
    expect(complaints({ BATON_JWKS_URL: 'https://keys.example/jwks' })).toEqual([
      expect.stringContaining('nothing would check them'),
    ])
    expect(complaints({ BATON_JWT_ISSUERS: 'https://issuer.example' })).toHaveLength(1)
    expect(complaints({ BATON_JWT_AUDIENCE: 'baton' })).toHaveLength(1)
    expect(complaints({ BATON_JWT_ALGS: 'RS256' })).toHaveLength(1)
  })
})

test('origins and proxies must be what they say, and all complaints come at once', () => {
  const found = complaints({
    BATON_CORS_ORIGINS: 'https://good.example,https://bad.example/path,nonsense',
    BATON_TRUSTED_PROXIES: '10.0.0.0/8,10.0.0.0/40',
    BATON_AUTH: 'jwt',
  })
  expect(found).toHaveLength(5)
  expect(complaints({ BATON_CORS_ORIGINS: '*' })).toEqual([])
})

test('with tokens no page may be let in that was not named', () => {
  expect(complaints({ ...JWT, BATON_CORS_ORIGINS: '*' })).toEqual([expect.stringContaining('BATON_CORS_ORIGINS')])
  expect(complaints({ ...JWT, BATON_CORS_ORIGINS: 'https://app.example' })).toEqual([])
})

test('algorithms are those of the keys, or such of them as are named; never a secret’s with public keys', () => {
  expect(readEdgeConfig(JWT).edge.auth?.algorithms).toEqual(['RS256', 'ES256', 'EdDSA', 'Ed25519'])
  expect(readEdgeConfig({ ...JWT, BATON_JWT_ALGS: 'ES384' }).edge.auth?.algorithms).toEqual(['ES384'])
  for (const wrong of ['HS256', 'none', 'RS256,HS512', 'rs256']) {
    expect(complaints({ ...JWT, BATON_JWT_ALGS: wrong })).toEqual([expect.stringContaining('BATON_JWT_ALGS')])
  }
})

test('one subject has a bound on its streams where tokens tell subjects apart, one address only if it is asked for', () => {
  expect(readEdgeConfig(JWT).edge.connectionsPerClient).toBe(1000)
  expect(readEdgeConfig({}).edge.connectionsPerClient).toBe(0)
  expect(readEdgeConfig({ BATON_CONNECTIONS_PER_CLIENT: '7' }).edge.connectionsPerClient).toBe(7)
  expect(readEdgeConfig({ ...JWT, BATON_CONNECTIONS_PER_CLIENT: '0' }).edge.connectionsPerClient).toBe(0)
})

test('limits are taken over', () => {
  const { edge, port } = readEdgeConfig({
    BATON_PORT: '0',
    BATON_OPENS_PER_CLIENT: '0',
    BATON_CLIENT_BUFFER_BYTES: '4096',
  })
  expect(port).toBe(0)
  expect(edge).toMatchObject({ opensPerClient: 0, clientBufferBytes: 4096, heartbeatMs: 15_000 })
})
