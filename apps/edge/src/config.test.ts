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

  test('tokens cannot be verified yet: who asks for it gets no edge, and never an open one', () => {
    expect(complaints({ BATON_AUTH: 'jwt' })).toEqual([expect.stringContaining('cannot verify tokens yet')])
    expect(complaints({ BATON_AUTH: 'jwt', BATON_AUTH_NONE_I_KNOW: '1' })).toHaveLength(1)
    expect(complaints({ BATON_JWKS_URL: 'https://keys.example/jwks' })).toEqual([
      expect.stringContaining('nothing would check them'),
    ])
    expect(complaints({ BATON_JWT_ISSUERS: 'https://issuer.example' })).toHaveLength(1)
  })
})

test('origins and proxies must be what they say, and all complaints come at once', () => {
  const found = complaints({
    BATON_CORS_ORIGINS: 'https://good.example,https://bad.example/path,nonsense',
    BATON_TRUSTED_PROXIES: '10.0.0.0/8,10.0.0.0/40',
    BATON_AUTH: 'jwt',
  })
  expect(found).toHaveLength(4)
  expect(complaints({ BATON_CORS_ORIGINS: '*' })).toEqual([])
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
