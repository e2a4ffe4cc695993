import { BlockList, isIP } from 'node:net'

/** Addresses and CIDR ranges of proxies. Throws a plain sentence for what is neither. */
export function trustedProxies(entries: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', prefix] = entry.split('/')
    const family = isIP(address)
    const bits = prefix === undefined ? (family === 6 ? 128 : 32) : Number(prefix)
    if (family === 0 || !Number.isInteger(bits) || bits < 0 || bits > (family === 6 ? 128 : 32)) {
      throw new Error(`${entry} is no address or CIDR range`)
    }
    list.addSubnet(address, bits, family === 6 ? 'ipv6' : 'ipv4')
  }
  return (address) => {
    const plain = unmapped(address)
    const family = isIP(plain)
    return family !== 0 && list.check(plain, family === 6 ? 'ipv6' : 'ipv4')
  }
}

/** An IPv4 address as a dual-stack socket shows it is still that address. */
const unmapped = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '')

/** Some proxies add the port. */
const withoutPort = (hop: string): string =>
  /^\[([^\]]+)\](?::\d+)?$|^(\d+(?:\.\d+){3}):\d+$/.exec(hop)?.slice(1).find(Boolean) ?? hop

/**
 * Who asks: the peer of the socket, or, behind proxies that are trusted, the last address of `X-Forwarded-For` that
 * is not one of theirs. What stands further left was written by whoever liked to.
 */
export function clientAddress(
  peer: string | undefined,
  forwardedFor: string | undefined,
  isTrusted: (address: string) => boolean,
): string {
  let address = unmapped(peer ?? '')
  const hops = (forwardedFor ?? '').split(',').map((hop) => unmapped(withoutPort(hop.trim())))
  while (isTrusted(address)) {
    const hop = hops.pop()
    if (hop === undefined || isIP(hop) === 0) break
    address = hop
  }
  return address
}
