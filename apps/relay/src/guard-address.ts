import { BatonError } from '@baton/core/errors'
import ipaddr from 'ipaddr.js'

/**
 * May a connection be opened to `address`, which `host` of an upstream URL stands for? Upstream URLs are untrusted:
 * without this they reach cloud metadata, loopback services and the whole private network.
 */
export type AddressGuard = (host: string, address: string) => boolean

type Address = ipaddr.IPv4 | ipaddr.IPv6

const hostName = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_-]{1,63})*\.?$/i
/** NAT64 (RFC 6052): the last 32 bits are the IPv4 address that is meant. */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** All of today's public IPv6. Outside lie IPv4-compatible addresses and what is not given out yet. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')

const bare = (host: string): string =>
  host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase()

/** The IPv4 address inside a mapped or NAT64 address: what a packet sent there would reach. */
function unwrapped(address: Address): Address {
  if (address instanceof ipaddr.IPv4) return address
  if (address.isIPv4MappedAddress()) return address.toIPv4Address()
  return address.match(nat64) ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}

const isPublic = (address: Address): boolean =>
  address.range() === 'unicast' && (address instanceof ipaddr.IPv4 || address.match(globalUnicast))

type Network = [Address, number]

function network(entry: string): Network | null {
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry)
  if (!ipaddr.isValid(bare(entry)) || !/[.:]/.test(entry)) return null
  const address = ipaddr.parse(bare(entry))
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

const inside = (address: Address, [base, bits]: Network): boolean =>
  address instanceof ipaddr.IPv4
    ? base instanceof ipaddr.IPv4 && address.match(base, bits)
    : base instanceof ipaddr.IPv6 && address.match(base, bits)

const isHostName = (entry: string): boolean => hostName.test(entry) && !/^[\d.]+$/.test(entry)

/** Can this stand in the list of what an operator allows? */
export const isAllowEntry = (entry: string): boolean => network(entry) !== null || isHostName(entry)

/**
 * Public addresses are allowed, all others refused but those an operator listed: networks in CIDR form, single
 * addresses, or host names (whatever they resolve to). An entry that is none of these throws `invalid`.
 */
export function createAddressGuard(allow: readonly string[]): AddressGuard {
  const networks: Network[] = []
  const hosts = new Set<string>()
  for (const entry of allow) {
    const found = network(entry)
    if (found !== null) networks.push(found)
    else if (isHostName(entry)) hosts.add(bare(entry))
    else throw new BatonError('invalid', `${entry} is neither a network (10.0.0.0/8), an address nor a host name`)
  }
  return (host, text) => {
    if (hosts.has(bare(host))) return true
    // A zone (fe80::1%eth0) says which link, not which address.
    const plain = bare(text).replace(/%.*$/, '')
    if (!ipaddr.isValid(plain)) return false
    const given = ipaddr.parse(plain)
    const meant = unwrapped(given)
    return isPublic(meant) || networks.some((one) => inside(meant, one) || inside(given, one))
  }
}
