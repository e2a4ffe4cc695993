import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectNats, type Nats } from '@baton/store/connect'
import { Agents } from '../kit/agents.ts'
import { livingChildren } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { LOOPBACK, type Place } from '../kit/place.ts'
import { startEdge, startRelay, type App, type AppOptions } from '../kit/process.ts'
import { Proxy } from '../kit/proxy.ts'
import { setUp } from '../kit/set-up.ts'
import { SmallDisk } from './small-disk.ts'
import type { Network } from './network.ts'

/** This process's own addresses, for the proxies: in a network of its own, each service can be lost alone. */
export const DOORS = { nats: '10.77.0.2', agents: '10.77.0.3', clients: '10.77.0.4' } as const

export type WorldOptions = {
  readonly replicas: 1 | 3
  readonly relays: number
  readonly edges: number
  readonly network: Network | null
  /** Does a node of NATS get a disk so small that it can be filled? Needs a mount namespace of our own. */
  readonly smallDisk: boolean
  readonly source?: string
}

/** A relay or an edge, and how it is hurt. */
export type Member = {
  readonly app: App
  readonly place: Place
  /** To each node of NATS. */
  readonly natsDoors: readonly Proxy[]
  /** From its clients; a relay has none. */
  readonly clientDoor: Proxy | null
  /** Where the test's hand inside it reads. */
  readonly orders: string
}

/** All of Baton on this machine, each process at a place of its own where there is a network, and a proxy on every way. */
export class World {
  readonly servers: readonly NatsServer[]
  /** Null where there is one server. */
  readonly cluster: NatsCluster | null
  readonly disk: SmallDisk | null
  readonly network: Network | null
  readonly agents: Agents
  /** What relays take for the agents. */
  readonly agentDoor: Proxy
  readonly relays: readonly Member[]
  readonly edges: readonly Member[]
  /** One address for all edges, as a gateway would be. */
  readonly gateway: Proxy
  readonly store: Nats
  readonly options: WorldOptions

  private constructor(parts: Omit<World, 'heal' | 'edgeUrls' | 'members' | 'outputs' | typeof Symbol.asyncDispose>) {
    this.servers = parts.servers
    this.cluster = parts.cluster
    this.disk = parts.disk
    this.network = parts.network
    this.agents = parts.agents
    this.agentDoor = parts.agentDoor
    this.relays = parts.relays
    this.edges = parts.edges
    this.gateway = parts.gateway
    this.store = parts.store
    this.options = parts.options
  }

  static async start(options: WorldOptions): Promise<World> {
    const { network } = options
    const disk = options.smallDisk ? new SmallDisk() : null
    const { servers, cluster } = await startServers(options, disk)
    if (cluster !== null) await setUp(cluster.urlOf('operator'), environmentOf(options))
    const agents = await Agents.start(placeOf(network, 'agents'))
    const agentDoor = await Proxy.start(target(agents.url), network === null ? LOOPBACK.address : DOORS.agents)
    const folder = await mkdtemp(join(tmpdir(), 'baton-orders-'))
    const start = (role: 'relay' | 'edge', count: number): Promise<Member[]> =>
      Promise.all(
        Array.from({ length: count }, (_, at) => startMember(role, `${role}-${at + 1}`, { options, servers, folder })),
      )
    const store = await connectNats(
      { servers: servers.map(({ url }) => url), name: 'test' },
      AbortSignal.timeout(20_000),
    )
    const [relays, edges] = await Promise.all([start('relay', options.relays), start('edge', options.edges)])
    const gateway = await Proxy.start(edges.map(({ app }) => clientTarget(network, app)))
    return new World({ servers, cluster, disk, network, agents, agentDoor, relays, edges, gateway, store, options })
  }

  get members(): readonly Member[] {
    return [...this.relays, ...this.edges]
  }

  /** Where the clients of each edge go. */
  get edgeUrls(): readonly string[] {
    return this.edges.map(({ clientDoor }) => `http://127.0.0.1:${clientDoor?.port}`)
  }

  /** Everything is up, and no way is closed. */
  async heal(): Promise<void> {
    for (const proxy of proxiesOf(this)) {
      proxy.refuses = false
      proxy.delayMs = 0
      proxy.sliceBytes = 0
      proxy.join()
    }
    await this.disk?.empty()
    for (const server of this.servers) {
      server.resume()
      if (server.child.exit !== null) await server.start()
    }
    if (this.cluster !== null) await makeWhole(this.cluster)
    for (const { app } of this.members) {
      app.child.resume()
      if (app.child.exit !== null) await app.restart({ wait: false })
    }
    for (const { app } of this.members) await app.ready()
    await eventually('NATS takes writes', () => this.store.nc.flush().then(() => true), { withinMs: 60_000 })
  }

  get outputs(): ReadonlyMap<string, string> {
    const apps = this.members.map(({ app }) => [app.name, app.output] as const)
    return new Map([...apps, ...this.servers.map(({ name, output }) => [name, output] as const)])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.nc.close()
    await Promise.all([...this.members.map(({ app }) => app), this.agents].map((one) => one[Symbol.asyncDispose]()))
    await Promise.all(proxiesOf(this).map((proxy) => proxy[Symbol.asyncDispose]()))
    await Promise.all(this.servers.map(async ({ child }) => (child.exit === null ? child.kill() : undefined)))
    this.disk?.unmount()
    await Promise.all(
      [...this.servers, ...(this.cluster === null ? [] : [this.cluster])].map((one) => one[Symbol.asyncDispose]()),
    )
    const left = livingChildren()
    if (left.length > 0) throw new Error(`still running: ${left.join(', ')}`)
  }
}

/** Does a node of a cluster that is whole again not catch up by itself, it is started anew, as an operator would. */
async function makeWhole(cluster: NatsCluster): Promise<void> {
  for (const node of cluster.nodes) node.resume()
  const isWhole = await cluster.healthy(CATCH_UP_MS).then(
    () => true,
    () => false,
  )
  if (isWhole) return
  for (const node of cluster.nodes) {
    if (await node.monitor('/healthz').catch(() => null)) continue
    console.log(`  ${node.name} did not catch up in ${CATCH_UP_MS / 1000} s, and is started anew`)
    await node.restart()
  }
  await cluster.healthy()
}

const CATCH_UP_MS = 45_000

const placeOf = (network: Network | null, name: string): Place => network?.place(name) ?? LOOPBACK

const target = (url: string) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) })

/** Edges tell clients by their address: one client comes from the same one everywhere. */
const clientTarget = (network: Network | null, { url }: App) =>
  network === null ? target(url) : { ...target(url), from: DOORS.clients }

const proxiesOf = ({ members, agentDoor, gateway }: World): Proxy[] => [
  agentDoor,
  gateway,
  ...members.flatMap(({ natsDoors, clientDoor }) => [...natsDoors, ...(clientDoor === null ? [] : [clientDoor])]),
]

async function startServers(
  { network, replicas }: WorldOptions,
  disk: SmallDisk | null,
): Promise<{ servers: readonly NatsServer[]; cluster: NatsCluster | null }> {
  if (replicas === 1) {
    const prepare = disk === null ? {} : { prepare: (folder: string) => disk.mount(folder) }
    return { servers: [await NatsServer.start({ place: placeOf(network, 'nats-1'), ...prepare })], cluster: null }
  }
  const cluster = await NatsCluster.start({
    placeOf: (name) => placeOf(network, name),
    parted: network === null,
    advertised: false,
    prepare: (name, folder) => (name === 'nats-3' ? disk?.mount(folder) : undefined),
  })
  return { servers: cluster.nodes, cluster }
}

/** Limits that make a fault run of minutes what a month is to others: what waits for hours elsewhere happens in it. */
const ENVIRONMENT = {
  BATON_RUNS_MAX_BYTES: String(128 * 2 ** 20),
  BATON_TOPICS_MAX_BYTES: String(64 * 2 ** 20),
  BATON_UPSTREAM_SILENCE_MS: '20000',
  BATON_UPSTREAM_ALLOW: '127.0.0.0/8,10.77.0.0/16',
  BATON_HEARTBEAT_MS: '2000',
  BATON_OPENS_TOTAL: '0',
  BATON_PUBLISH_PER_SECOND: '0',
  BATON_LOG_LEVEL: 'debug',
}

const environmentOf = ({ replicas }: WorldOptions) => ({ ...ENVIRONMENT, BATON_REPLICAS: String(replicas) })

async function startMember(
  role: 'relay' | 'edge',
  name: string,
  { options, servers, folder }: { options: WorldOptions; servers: readonly NatsServer[]; folder: string },
): Promise<Member> {
  const { network, source } = options
  const place = placeOf(network, name)
  const at = network === null ? LOOPBACK.address : DOORS.nats
  const natsDoors = await Promise.all(servers.map((server) => Proxy.start(server, at)))
  const orders = join(folder, name)
  const appOptions: AppOptions = {
    natsUrl: servers
      .map((server, to) => server.urlOf(role).replace(`${server.host}:${server.port}`, `${at}:${natsDoors[to]?.port}`))
      .join(','),
    environment: { ...environmentOf(options), CHAOS_ORDERS: orders },
    place,
    preload: join(import.meta.dirname, 'inside.ts'),
    ...(source === undefined ? {} : { source }),
  }
  const app = await (role === 'relay' ? startRelay : startEdge)(name, appOptions)
  const clientDoor = role === 'edge' ? await Proxy.start(clientTarget(network, app)) : null
  return { app, place, natsDoors, clientDoor, orders }
}
