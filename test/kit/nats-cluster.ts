import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connectNats, type Nats } from '@baton/store/connect'
import { eventually } from './eventually.ts'
import { root } from './find-binary.ts'
import { expectNone } from './refusals.ts'
import { freePort } from './free-port.ts'
import { NatsServer, type Role } from './nats-server.ts'
import { LOOPBACK, type Place } from './place.ts'
import { Proxy } from './proxy.ts'

export type NatsClusterOptions = {
  /** Do the nodes reach each other through proxies, one for each pair, so that they can be parted? Default false. */
  readonly parted?: boolean
  /** Are clients told of the other nodes, as by default? Not where they must stay with the addresses they were given. */
  readonly advertised?: boolean
  /** Where each node lives; default: all on loopback. */
  readonly placeOf?: (name: NodeName) => Place
  /** Makes the folder a node's data goes into, e.g. on a disk of its own. */
  readonly prepare?: (name: NodeName, dataFolder: string) => void
  /** In place of what cluster.conf says, e.g. `always`. */
  readonly syncInterval?: string
}

export const NODES = ['nats-1', 'nats-2', 'nats-3'] as const
export type NodeName = (typeof NODES)[number]

const JSZ = '/jsz?accounts=true&streams=true'
type Jsz = {
  readonly meta_cluster?: Raft
  readonly account_details?: readonly { readonly stream_detail?: readonly StreamDetail[] }[]
}
type StreamDetail = { readonly name: string; readonly cluster?: Raft }
type Raft = { readonly leader?: string; readonly replicas?: readonly Peer[] }
type Peer = { readonly name: string; readonly current: boolean; readonly offline?: boolean }

/** A real JetStream cluster of three on loopback, each node from nats/cluster.conf, on ports the kernel chose. */
export class NatsCluster {
  readonly nodes: readonly NatsServer[]
  /** By the two it stands between, the one that dials first. */
  readonly #routes: ReadonlyMap<string, Proxy>

  private constructor(nodes: readonly NatsServer[], routes: ReadonlyMap<string, Proxy>) {
    this.nodes = nodes
    this.#routes = routes
  }

  /** Resolves when it has a leader and takes writes. */
  static async start(options: NatsClusterOptions = {}): Promise<NatsCluster> {
    const placeOf = options.placeOf ?? (() => LOOPBACK)
    const routePorts = await Promise.all(NODES.map(freePort))
    const proxies = new Map<string, Proxy>()
    const configurations = new Map<NodeName, string>()
    for (const [at, name] of NODES.entries()) {
      const targets = [...routePorts]
      if (options.parted === true) {
        // Each pair has one that dials, through the proxy. The other one has its own port in that place: it needs as
        // many routes as there are nodes, and takes no notice of one that leads to itself.
        targets.fill(routePorts[at] ?? 0)
        for (const [other, port] of routePorts.slice(0, at).entries()) {
          const proxy = await Proxy.start({ port })
          proxies.set(`${name} ${NODES[other]}`, proxy)
          targets[other] = proxy.port
        }
      }
      const routes = targets.map((port, to) => `nats://${placeOf(NODES[to] ?? name).address}:${port}`)
      const listen = `${placeOf(name).address}:${routePorts[at]}`
      configurations.set(name, await configure({ listen, routes }, options))
    }
    const nodes = await Promise.all(
      [...configurations].map(([name, configuration]) =>
        NatsServer.start({
          name,
          users: true,
          password: TESTER,
          configuration,
          place: placeOf(name),
          prepare: (dataFolder) => options.prepare?.(name, dataFolder),
        }),
      ),
    )
    const cluster = new NatsCluster(nodes, proxies)
    await cluster.healthy()
    return cluster
  }

  /** All nodes, as a client's list, for the tester: who hurts nodes and streams may do all. */
  get url(): string {
    return this.nodes.map(({ url }) => url).join(',')
  }

  /** All nodes, for the user of a role. */
  urlOf(role: Role): string {
    return this.nodes.map((node) => node.urlOf(role)).join(',')
  }

  /** What its nodes have refused their users since this was asked last. */
  refusals(): readonly string[] {
    return this.nodes.flatMap((node) => node.refusals())
  }

  expectNoRefusal(): void {
    expectNone(this.refusals())
  }

  node(name: string): NatsServer {
    const found = this.nodes.find((node) => node.name === name)
    if (found === undefined) throw new Error(`the cluster has no node ${name}`)
    return found
  }

  others(name: string): readonly NatsServer[] {
    return this.nodes.filter((node) => node.name !== name)
  }

  /** The proxy between two nodes; `up` is from the later name to the earlier one. */
  between(one: NodeName, other: NodeName): Proxy {
    const proxy = this.#routes.get(`${one} ${other}`) ?? this.#routes.get(`${other} ${one}`)
    if (proxy === undefined) throw new Error(`no proxy between ${one} and ${other}: start the cluster with \`parted\``)
    return proxy
  }

  /** Every node runs, hears the others, and has caught up with everything it keeps; all agree on who leads what. */
  async healthy(withinMs = 60_000): Promise<void> {
    await eventually('the cluster is whole', async () => isWhole(await Promise.all(this.nodes.map(look))), {
      withinMs,
      everyMs: 50,
    })
  }

  /** The node that leads the cluster as a whole: it places streams and consumers. */
  async metaLeader(): Promise<NatsServer> {
    return this.#agreed('the cluster', ({ meta_cluster: meta }) => meta?.leader)
  }

  /** The node that leads a stream; a bucket's is `KV_<bucket>`. Waits for an election to end. */
  async leaderOf(stream: string): Promise<NatsServer> {
    return this.#agreed(stream, (jsz) => raftOf(jsz, stream)?.leader)
  }

  /** The node that a client is connected to whose name begins so: a relay's is `baton-relay-`. */
  async nodeOf(client: string): Promise<NatsServer> {
    return eventually(`${client} is connected`, async () => {
      for (const node of this.nodes.filter((one) => one.isUp)) {
        const { connections = [] } = (await node.monitor('/connz')) as { connections?: readonly { name?: string }[] }
        if (connections.some(({ name }) => name?.startsWith(client) === true)) return node
      }
      return null
    })
  }

  /** A node that keeps a stream and does not lead it. */
  async followerOf(stream: string): Promise<NatsServer> {
    const leader = await this.leaderOf(stream)
    const [follower] = this.others(leader.name).filter((node) => node.isUp)
    if (follower === undefined) throw new Error(`no follower of ${stream} is up`)
    return follower
  }

  /** Lets this node lead the stream, so that a test knows which one it hurts. */
  async lead(nats: Nats, stream: string, node: NatsServer): Promise<void> {
    await eventually(
      `${node.name} leads ${stream}`,
      async () => {
        if ((await this.leaderOf(stream)) === node) return true
        const wish = JSON.stringify({ placement: { preferred: node.name } })
        await nats.nc.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`, wish, { timeout: 2000 })
        return false
      },
      { withinMs: 30_000, everyMs: 200 },
    )
  }

  /** Lets this node lead the cluster as a whole. */
  async leadAll(node: NatsServer): Promise<void> {
    const operator = await connectNats({ servers: [node.systemUrl], name: 'operator' }, AbortSignal.timeout(20_000))
    try {
      await eventually(
        `${node.name} leads the cluster`,
        async () => {
          if ((await this.metaLeader()) === node) return true
          const wish = JSON.stringify({ placement: { preferred: node.name } })
          await operator.nc.request('$JS.API.META.LEADER.STEPDOWN', wish, { timeout: 2000 })
          return false
        },
        { withinMs: 30_000, everyMs: 200 },
      )
    } finally {
      await operator.nc.close()
    }
  }

  /** What the nodes that are up say of a leader, once they all say the same and it is one of them. */
  async #agreed(what: string, leaderOf: (jsz: Jsz) => string | undefined): Promise<NatsServer> {
    return eventually(
      `${what} has a leader`,
      async () => {
        const up = this.nodes.filter((node) => node.isUp)
        const names = await Promise.all(up.map(async (node) => leaderOf((await node.monitor(JSZ)) as Jsz)))
        return up.find(({ name }) => names.every((one) => one === name))
      },
      { withinMs: 30_000, everyMs: 50 },
    )
  }

  /** Brings back whatever a test has killed, paused or parted. */
  async heal(): Promise<void> {
    for (const proxy of this.#routes.values()) proxy.refuses = false
    for (const node of this.nodes) await node.heal()
    await this.healthy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node[Symbol.asyncDispose]()))
    await Promise.all([...this.#routes.values()].map((proxy) => proxy[Symbol.asyncDispose]()))
  }
}

/** What one node says of itself and of the others. */
type View = { readonly name: string; readonly jsz: Jsz; readonly peers: ReadonlySet<string> }

async function look(node: NatsServer): Promise<View> {
  await node.monitor('/healthz')
  const { routes = [] } = (await node.monitor('/routez')) as { routes?: readonly { remote_name: string }[] }
  const jsz = (await node.monitor(JSZ)) as Jsz
  return { name: node.name, jsz, peers: new Set(routes.map((route) => route.remote_name)) }
}

function isWhole(views: readonly View[]): boolean {
  const replicated = views.flatMap(({ jsz }) => streamsOf(jsz).filter(({ cluster }) => cluster?.replicas !== undefined))
  const led = (raftIn: (jsz: Jsz) => Raft | undefined) => {
    const rafts = views.map(({ jsz }) => raftIn(jsz))
    const leader = views.findIndex(({ name }) => rafts.every((raft) => raft?.leader === name))
    const replicas = rafts[leader]?.replicas ?? []
    // Only the leader knows how far the others are.
    return replicas.length === views.length - 1 && replicas.every((peer) => peer.current && peer.offline !== true)
  }
  return (
    views.every(({ peers }) => peers.size === views.length - 1) &&
    led((jsz) => jsz.meta_cluster) &&
    [...new Set(replicated.map(({ name }) => name))].every((name) => led((jsz) => raftOf(jsz, name)))
  )
}

const streamsOf = ({ account_details: accounts }: Jsz): readonly StreamDetail[] =>
  accounts?.flatMap((account) => account.stream_detail ?? []) ?? []

const raftOf = (jsz: Jsz, stream: string): Raft | undefined =>
  streamsOf(jsz).find(({ name }) => name === stream)?.cluster

/** The tester's password. */
const TESTER = 'baton'

/** The users of nats/accounts.conf, and the one that the tests are. */
const withTester = (accounts: string): string =>
  accounts.replace('{ user: relay,', `{ user: baton, password: ${TESTER} }\n      { user: relay,`)

type Routes = { readonly listen: string; readonly routes: readonly string[] }

/** nats/cluster.conf for this machine: with the node's own routes. Everything else stands as it is shipped. */
async function configure({ listen, routes }: Routes, options: NatsClusterOptions): Promise<string> {
  const [cluster, accounts] = await Promise.all(
    ['cluster.conf', 'accounts.conf'].map((name) => readFile(join(root, 'nats', name), 'utf8')),
  )
  // A route that a node learns of by hearsay would go round the proxies.
  const advertise = options.parted === true ? '\n  advertise: "127.0.0.1:1"' : ''
  const noAdvertise = options.advertised === false ? '\n  no_advertise: true' : ''
  const changes: [string | RegExp, string][] = [
    ['listen: 0.0.0.0:6222', `listen: ${listen}${advertise}${noAdvertise}`],
    // Streams reserve their max_bytes, and three nodes share one disk: as dev.conf, which says why.
    ['store_dir: $NATS_DATA', 'store_dir: $NATS_DATA\n  max_file_store: 64GB'],
    [/routes: \[.*\]/, `routes: [${routes.join(', ')}]`],
    ['include "accounts.conf"', withTester(accounts ?? '')],
    ...(options.syncInterval === undefined
      ? []
      : [[/sync_interval: .*/, `sync_interval: ${options.syncInterval}`] as [RegExp, string]]),
  ]
  return changes.reduce((text, [from, to]) => {
    const changed = text.replace(from, () => to)
    if (changed === text) throw new Error(`nats/cluster.conf has changed its form: no ${String(from)}`)
    return changed
  }, cluster ?? '')
}
