import { describe, expect, test } from 'vitest'
import { addressOf, credentialsOf, shownServers } from './nats-url.ts'

describe('a NATS server, as it is written', () => {
  test.each([
    ['nats://a:4222', 'nats://a:4222', null],
    ['a:4222', 'a:4222', null],
    ['nats://me:hush@a:4222', 'nats://a:4222', { user: 'me', pass: 'hush' }],
    ['me:hush@a:4222', 'a:4222', { user: 'me', pass: 'hush' }],
    ['tls://me:hu%40sh@[::1]:4222', 'tls://[::1]:4222', { user: 'me', pass: 'hu@sh' }],
    ['nats://me:hu@s/h%@a', 'nats://a', { user: 'me', pass: 'hu@s/h%' }],
    ['nats://hush@a', 'nats://a', { user: 'hush', pass: '' }],
  ])('%s', (server, address, credentials) => {
    expect(addressOf(server)).toBe(address)
    expect(credentialsOf(server)).toEqual(credentials)
    expect(shownServers(`${server},b`)).not.toMatch(/hu/)
  })

  test('is shown with its user and its host', () => {
    expect(shownServers('nats://me:hush@a:4222,b:4222')).toBe('nats://me:…@a:4222,b:4222')
    expect(shownServers('nats://hush@a')).toBe('nats://…@a')
  })
})
