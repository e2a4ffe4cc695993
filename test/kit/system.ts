import { connectNats, type Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Verdict } from '@baton/core/judge'
import type { Claim } from '@baton/core/records'
import { test as base } from 'vitest'
import { livingChildren } from './child.ts'
import { connectAs } from './connect-as.ts'
import { eventually } from './eventually.ts'
import type { LogEntry } from './history.ts'
import { NatsCluster, type NatsClusterOptions } from './nats-cluster.ts'
import { NatsServer, type NatsServerOptions, type Role } from './nats-server.ts'
import { startEdge, startRelay, type App } from './process.ts'
import { Proxy } from './proxy.ts'
import { readLogs } from './read-log.ts'
import { expectNone } from './refusals.ts'
import { setUp } from './set-up.ts'
import { SseClient, type SseClientOptions } from './sse-client.ts'
import { Agents } from './agents.ts'

export type SystemOptions = {
  readonly relays?: number
  readonly edges?: number
  readonly nats?: NatsServerOptions
  /**
   * A cluster of three NATS nodes in place of the one server, and three replicas of everything. Each process is the user
   * of its role there, and none may be refused anything.
   */
  readonly cluster?: NatsClusterOptions
  /** Variables of every relay and edge. */
  readonly environment?: Readonly<Record<string, string>>
  /** The folder with apps/ and libs/; a mutant's. */
  readonly source?: string
  /** Which processes reach NATS through proxies of their own, one for each NATS server. */
  readonly proxied?: 'relays' | 'edges'
}

/** What the edge shows of a run, as far as the tests look at it. */
export type ShownRun = {
  readonly run: string
  readonly state: string
  readonly reason?: string
  readonly end: { readonly reason: string; readonly detail: string | null } | null
  readonly owner: { readonly relay: string; readonly boot: string; readonly epoch: number | null } | null
  readonly position: string
  readonly first: { readonly sequence: number; readonly index: number } | null
  readonly head: { readonly sequence: number; readonly index: number } | null
  readonly health: Verdict | null
  readonly jobs: readonly { readonly job: string; readonly state: string; readonly reason: string | null }[]
}

/** A single server with users has the machine's own limits: what it is to keep must fit. */
const SMALL = { BATON_RUNS_MAX_BYTES: String(64 * 2 ** 20), BATON_TOPICS_MAX_BYTES: String(64 * 2 ** 20) }

/** The whole of Baton on this machine: one NATS server or three, relays, edges and an agent process. */
export class System {
  readonly #nats: NatsServer | NatsCluster
  readonly store: Nats
  readonly agents: Agents
  readonly relays: readonly App[]
  readonly edges: readonly App[]
  readonly #proxies: ReadonlyMap<string, readonly Proxy[]>

  private constructor(
    nats: NatsServer | NatsCluster,
    proxies: ReadonlyMap<string, readonly Proxy[]>,
    parts: Pick<System, 'store' | 'agents' | 'relays' | 'edges'>,
  ) {
    this.#nats = nats
    this.#proxies = proxies
    this.store = parts.store
    this.agents = parts.agents
    this.relays = parts.relays
    this.edges = parts.edges
  }

  static async start(options: SystemOptions = {}): Promise<System> {
    const { relays = 2, edges = 2, proxied, source } = options
    const nats = await (options.cluster === undefined
      ? NatsServer.start(options.nats)
      : NatsCluster.start({ ...options.cluster, advertised: proxied === undefined }))
    const hasUsers = nats instanceof NatsCluster || options.nats?.users === true
    const sizes = nats instanceof NatsCluster ? { BATON_REPLICAS: '3' } : hasUsers ? SMALL : {}
    const environment = { ...sizes, ...options.environment }
    const common = { environment, ...(source === undefined ? {} : { source }) }
    const proxies = new Map<string, readonly Proxy[]>()
    const start = (role: 'relays' | 'edges', count: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, at) => {
          const user = role === 'relays' ? 'relay' : 'edge'
          const name = `${user}-${at + 1}`
          let natsUrl = nats.urlOf(user)
          if (proxied === role) {
            const own = await Promise.all(serversOf(nats).map((server) => Proxy.start(server)))
            proxies.set(name, own)
            natsUrl = serversOf(nats)
              .map((server, to) => server.urlOf(user).replace(`:${server.port}`, `:${own[to]?.port ?? 0}`))
              .join(',')
          }
          return (role === 'relays' ? startRelay : startEdge)(name, { natsUrl, ...common })
        }),
      )
    const servers = ownUrl(nats).split(',')
    const store = await connectNats({ servers, name: 'test' }, AbortSignal.timeout(20_000))
    if (hasUsers) await setUp(nats.urlOf('operator'), environment)
    const [agents, startedRelays, startedEdges] = await Promise.all([
      Agents.start(),
      start('relays', relays),
      start('edges', edges),
    ])
    return new System(nats, proxies, { store, agents, relays: startedRelays, edges: startedEdges })
  }

  /** The one NATS server. */
  get nats(): NatsServer {
    if (this.#nats instanceof NatsServer) return this.#nats
    throw new Error('this system runs on a cluster')
  }

  /** The three NATS servers. */
  get cluster(): NatsCluster {
    if (this.#nats instanceof NatsCluster) return this.#nats
    throw new Error('this system runs on one NATS server')
  }

  /** What the test itself is given, with more rights than any process has: one URL, or those of all nodes. */
  get natsUrl(): string {
    return ownUrl(this.#nats)
  }

  /** What NATS has refused its users since this was asked last. What nobody has asked for fails the test. */
  refusals(): readonly string[] {
    return this.#nats.refusals()
  }

  expectNoRefusal(): void {
    expectNone(this.refusals())
  }

  /** A connection as the user of a role. */
  connect(role: Role): Promise<{ nats: Nats } & AsyncDisposable> {
    return connectAs(this.#nats, role)
  }

  edgeUrl(path: string, at = 0): string {
    const edge = this.edges[at % this.edges.length]
    if (edge === undefined) throw new Error('this system has no edge')
    return `${edge.url}${path}`
  }

  /** Registers a run through an edge. A refusal throws, but that it was too busy: then the same may be asked again. */
  async register(run: string, body: Readonly<Record<string, unknown>>): Promise<void> {
    const { status, text } = await eventually(`POST /runs for ${run} is answered`, async () => {
      const response = await this.post('/runs', { run, ...body })
      const answer = { status: response.status, text: await response.text() }
      if (answer.status === 503) throw new Error(answer.text)
      return answer
    })
    if (status !== 201 && status !== 200) throw new Error(`POST /runs for ${run}: ${status} ${text}`)
  }

  async post(path: string, body: unknown): Promise<Response> {
    return fetch(this.edgeUrl(path), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  }

  async show(run: string): Promise<ShownRun> {
    const response = await fetch(this.edgeUrl(`/runs/${run}`))
    if (!response.ok) throw new Error(`GET /runs/${run}: ${response.status} ${await response.text()}`)
    return (await response.json()) as ShownRun
  }

  /** A client of a run at all edges in turn. */
  follow(run: string, options: Partial<SseClientOptions> & { query?: string } = {}): SseClient {
    const { query = '', ...rest } = options
    return new SseClient({ urls: this.edges.map((edge) => `${edge.url}/runs/${run}/events${query}`), ...rest })
  }

  async log(run: string): Promise<readonly LogEntry[]> {
    const logs = await eventually('the log can be read', () => readLogs(this.store))
    return logs.get(run) ?? []
  }

  /** The claim of a run as its bucket's leader has it; null when nobody holds it. */
  async claim(run: string): Promise<Claim | null> {
    return readClaim(await readKeyAtLeader(this.store, BUCKET.claims, run))
  }

  /** The relay process that holds a run, once one does. */
  async owner(run: string): Promise<App> {
    return eventually(`run ${run} has an owner`, async () => {
      const claim = await this.claim(run)
      return this.relays.find((relay) => relay.name === claim?.relay)
    })
  }

  /** The proxy between this process and the one NATS server. */
  proxyOf(app: App): Proxy {
    const [proxy, ...more] = this.proxiesOf(app)
    if (proxy === undefined || more.length > 0) throw new Error(`${app.name} has ${more.length + 1} proxies`)
    return proxy
  }

  /** The proxies between this process and NATS, one for each server. */
  proxiesOf(app: App): readonly Proxy[] {
    const proxies = this.#proxies.get(app.name)
    if (proxies === undefined) throw new Error(`${app.name} has no proxy`)
    return proxies
  }

  /** Brings back whatever a test has killed or paused. */
  async heal(): Promise<void> {
    await this.#nats.heal()
    for (const app of [...this.relays, ...this.edges]) {
      app.child.resume()
      if (app.child.exit !== null) await app.restart({ wait: false })
    }
    for (const app of [...this.relays, ...this.edges]) await app.ready()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.nc.close()
    await Promise.all(
      [...this.relays, ...this.edges, this.agents, ...[...this.#proxies.values()].flat()].map((one) =>
        one[Symbol.asyncDispose](),
      ),
    )
    await this.#nats[Symbol.asyncDispose]()
    this.expectNoRefusal()
    const left = livingChildren()
    if (left.length > 0) throw new Error(`still running: ${left.join(', ')}`)
  }
}

const serversOf = (nats: NatsServer | NatsCluster): readonly NatsServer[] =>
  nats instanceof NatsCluster ? nats.nodes : [nats]

/** A cluster has a tester, who may do all; a single server with users is as it is shipped. */
const ownUrl = (nats: NatsServer | NatsCluster): string =>
  nats instanceof NatsCluster ? nats.url : nats.urlOf('operator')

/** A `test` whose file shares one system, whole again before each test, and gives each test a run id of its own. */
export function testWithSystem(options: SystemOptions = {}) {
  let runs = 0
  return base
    .extend<{ whole: System }>({
      whole: [
        // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures from the pattern
        async ({}, use) => {
          await using system = await System.start(options)
          await use(system)
        },
        { scope: 'file' },
      ],
    })
    .extend<{ system: System; run: string }>({
      system: async ({ whole }, use) => {
        await whole.heal()
        await use(whole)
        whole.expectNoRefusal()
      },
      run: async ({ task }, use) => {
        const words = task.name
          .toLowerCase()
          .replaceAll(/[^a-z0-9]+/g, '-')
          .replace(/^-/, '')
        await use(`${words.slice(0, 40)}-${++runs}`)
      },
    })
}
