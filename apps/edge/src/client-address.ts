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
    const one = plain(address)
    const family = isIP(one)
    return family !== 0 && list.check(one, family === 6 ? 'ipv6' : 'ipv4')
  }
}

/**
 * An address as it is written once, so that it cannot pass for many: an IPv4 address that a dual-stack socket shows as
 * IPv6 is still that address, and a zone says nothing about who asks. What is no address stays as it is.
 */
function plain(text: string): string {
  if (isIP(text) !== 6) return text
  const [bare = ''] = text.split('%')
  const address = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const parts = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(address)?.slice(1)
  return parts === undefined ? address : parts.flatMap((part) => bytesOf(Number.parseInt(part, 16))).join('.')
}

const bytesOf = (word: number): number[] => [word >> 8, word & 255]

/**
 * Whom a limit is for. Whoever has an IPv6 address has all of its network of 64 bits, and may come with another one
 * each time. An IPv4 address, or the subject of a token, stands for itself.
 */
export function neighbourhood(client: string): string {
  if (isIP(client) !== 6) return client
  const [left = '', right] = client.split('::')
  const before = left === '' ? [] : left.split(':')
  const after = right === undefined || right === '' ? [] : right.split(':')
  const whole = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after]
  return `${whole.slice(0, 4).join(':')}::/64`
}

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
  let address = plain(peer ?? '')
  const hops = (forwardedFor ?? '').split(',').map((hop) => plain(withoutPort(hop.trim())))
  while (isTrusted(address)) {
    const hop = hops.pop()
    if (hop === undefined || isIP(hop) === 0) break
    address = hop
  }
  return address
}
