import { describe, expect, test } from 'vitest'
import { createAddressGuard } from './guard-address.ts'

const guard = createAddressGuard([])

describe('without a list', () => {
  test.each(['1.1.1.1', '93.184.216.34', '2606:4700::1111', '::ffff:1.1.1.1', '64:ff9b::101:101'])(
    '%s is allowed',
    (address) => {
      expect(guard('agent.example', address)).toBe(true)
    },
  )

  test.each([
    '127.0.0.1',
    '127.8.9.1',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '192.0.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '[::1]',
    'fe80::1',
    'fe80::1%eth0',
    'fc00::1',
    'fd12:3456::1',
    'fec0::1',
    'ff02::1',
    '2001:db8::1',
    '2002:7f00:1::1',
    '2001:0::1',
    '100::1',
    '::7f00:1',
    '::127.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '::ffff:0:10.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::169.254.169.254',
    '64:ff9b:1::1',
    '5f00::1',
    'not an address',
    '',
  ])('%s is refused', (address) => {
    expect(guard('agent.example', address)).toBe(false)
  })
})

describe('an operator may list', () => {
  test.each([
    ['10.0.0.0/8', '10.1.2.3', '11.0.0.1 is public, 172.16.0.1 is not', '172.16.0.1'],
    ['127.0.0.1', '127.0.0.1', 'one address', '127.0.0.2'],
    ['::1', '::1', 'one IPv6 address', 'fd00::1'],
    ['[::1]', '::1', 'in brackets', '::2'],
    ['fd00::/8', 'fd12::1', 'an IPv6 network', 'fe80::1'],
    ['127.0.0.0/8', '::ffff:127.0.0.1', 'mapped addresses are the ones they mean', '::ffff:10.0.0.1'],
  ])('%s: %s is allowed (%s), %s is not', (entry, allowed, _, refused) => {
    const guard = createAddressGuard([entry])
    expect(guard('agent.example', allowed)).toBe(true)
    expect(guard('agent.example', refused)).toBe(false)
  })

  test('a host, whatever it resolves to', () => {
    const guard = createAddressGuard(['Agents.internal'])
    expect(guard('agents.INTERNAL', '10.0.0.1')).toBe(true)
    expect(guard('agents.internal.', '10.0.0.1')).toBe(true)
    expect(guard('other.internal', '10.0.0.1')).toBe(false)
    expect(guard('x.agents.internal', '10.0.0.1')).toBe(false)
  })

  test.each(['10.0.0.0/33', '300.1.1.1', 'http://agent', 'a b', '10.0.0.1:80', '*'])('but not %s', (entry) => {
    expect(() => createAddressGuard([entry])).toThrow(`${entry} is neither a network`)
  })
})
