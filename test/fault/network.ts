import { execFileSync } from 'node:child_process'
import type { Place } from '../kit/place.ts'

/**
 * A network of our own on this machine: each process in a namespace, behind a cable of its own to the namespace this
 * process lives in, which routes between them. Here packets can be lost in one direction and nobody is told: what no
 * proxy can do. Everything in it is gone with the last process in it, whatever happens.
 */
export class Network {
  readonly #places = new Map<string, Place>()
  #rules = 0

  /**
   * Null where this process is not alone in a network namespace it may change: see `inOwnNetwork`. The addresses of
   * `services` are this process's own, for the proxies that stand between the others.
   */
  static open(services: readonly string[]): Network | null {
    if (process.env[INSIDE] === undefined) return null
    const network = new Network()
    ip('link', 'set', 'lo', 'up')
    for (const address of services) ip('addr', 'add', `${address}/32`, 'dev', 'lo')
    execFileSync('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.ip_early_demux=0'])
    // What is lost on its way to this process is decided before what is its own address.
    ip('rule', 'add', 'pref', '1000', 'lookup', 'local')
    ip('rule', 'del', 'pref', '0')
    return network
  }

  /** A namespace of that name, made when it is first asked for. */
  place(name: string): Place {
    const known = this.#places.get(name)
    if (known !== undefined) return known
    const number = this.#places.size + 1
    const [near, far, cable] = [`10.77.${number}.1`, `10.77.${number}.2`, `cable-${number}`]
    ip('netns', 'add', name)
    ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    ip('addr', 'add', `${near}/24`, 'dev', cable)
    ip('link', 'set', cable, 'up')
    ip('-n', name, 'addr', 'add', `${far}/24`, 'dev', 'eth0')
    for (const device of ['eth0', 'lo']) ip('-n', name, 'link', 'set', device, 'up')
    ip('-n', name, 'route', 'add', 'default', 'via', near)
    const place = { address: far, prefix: ['ip', 'netns', 'exec', name] }
    this.#places.set(name, place)
    return place
  }

  /** From now on nothing from one address reaches the other; the way back is as it was. Answers how to mend it. */
  lose(from: string, to: string): () => void {
    const rule = ['pref', String(100 + (this.#rules++ % 800)), 'from', from, 'to', to, 'blackhole']
    ip('rule', 'add', ...rule)
    return () => ip('rule', 'del', ...rule)
  }
}

const INSIDE = 'CHAOS_OWN_NETWORK'

/** How to start this process again alone in network and mount namespaces; null where it is, or where that cannot be. */
export function inOwnNetwork(): {
  readonly command: readonly string[]
  readonly environment: NodeJS.ProcessEnv
} | null {
  if (process.env[INSIDE] !== undefined || process.getuid?.() !== 0) return null
  // A place for the names of namespaces that nobody else sees, so that none is left behind.
  const script = 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec "$@"'
  const command = ['unshare', '--net', '--mount', 'sh', '-c', script, 'sh']
  const steps = [
    'netns add trial',
    'link add cable-0 type veth peer name eth0 netns trial',
    'rule add pref 9 blackhole',
  ]
  const trial = [...command, 'sh', '-c', steps.map((step) => `ip ${step}`).join(' && ')]
  try {
    execFileSync(trial[0] ?? '', trial.slice(1), { stdio: 'ignore' })
  } catch {
    return null
  }
  return { command, environment: { ...process.env, [INSIDE]: '1' } }
}

const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
