import { connectNats, type Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Claim } from '@baton/core/records'
import { test as base } from 'vitest'
import { livingChildren } from './child.ts'
import { eventually } from './eventually.ts'
import type { LogEntry } from './history.ts'
import { NatsServer, type NatsServerOptions } from './nats-server.ts'
import { startEdge, startRelay, type App } from './process.ts'
import { Proxy } from './proxy.ts'
import { readLogs } from './read-log.ts'
import { SseClient, type SseClientOptions } from './sse-client.ts'
import { Agents } from './agents.ts'

export type SystemOptions = {
  readonly relays?: number
  readonly edges?: number
  readonly nats?: NatsServerOptions
  /** Variables of every relay and edge. */
  readonly environment?: Readonly<Record<string, string>>
  /** The folder with apps/ and libs/; a mutant's. */
  readonly source?: string
  /** Which processes reach NATS through a proxy each, in `proxies` by their name. */
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
  readonly jobs: readonly { readonly job: string; readonly state: string; readonly reason: string | null }[]
}

/** The whole of Baton on this machine: one NATS server, relays, edges and an agent process. */
export class System {
  readonly nats: NatsServer
  readonly store: Nats
  readonly agents: Agents
  readonly relays: readonly App[]
  readonly edges: readonly App[]
  readonly proxies: ReadonlyMap<string, Proxy>

  private constructor(parts: Pick<System, 'nats' | 'store' | 'agents' | 'relays' | 'edges' | 'proxies'>) {
    this.nats = parts.nats
    this.store = parts.store
    this.agents = parts.agents
    this.relays = parts.relays
    this.edges = parts.edges
    this.proxies = parts.proxies
  }

  static async start(options: SystemOptions = {}): Promise<System> {
    const { relays = 2, edges = 2, environment = {}, source } = options
    const nats = await NatsServer.start(options.nats)
    const common = { environment, ...(source === undefined ? {} : { source }) }
    const proxies = new Map<string, Proxy>()
    const start = (role: 'relays' | 'edges', count: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, at) => {
          const name = `${role === 'relays' ? 'relay' : 'edge'}-${at + 1}`
          const proxy = options.proxied === role ? await Proxy.start(nats) : null
          if (proxy !== null) proxies.set(name, proxy)
          const natsUrl = proxy === null ? nats.url : `nats://127.0.0.1:${proxy.port}`
          return (role === 'relays' ? startRelay : startEdge)(name, { natsUrl, ...common })
        }),
      )
    const [agents, startedRelays, startedEdges, store] = await Promise.all([
      Agents.start(),
      start('relays', relays),
      start('edges', edges),
      connectNats({ servers: [nats.url], name: 'test' }, AbortSignal.timeout(20_000)),
    ])
    return new System({ nats, store, agents, relays: startedRelays, edges: startedEdges, proxies })
  }

  edgeUrl(path: string, at = 0): string {
    const edge = this.edges[at % this.edges.length]
    if (edge === undefined) throw new Error('this system has no edge')
    return `${edge.url}${path}`
  }

  /** Registers a run through an edge; a refusal throws. */
  async register(run: string, body: Readonly<Record<string, unknown>>): Promise<void> {
    const response = await this.post('/runs', { run, ...body })
    if (response.status !== 201 && response.status !== 200) {
      throw new Error(`POST /runs for ${run}: ${response.status} ${await response.text()}`)
    }
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
    return (await readLogs(this.store)).get(run) ?? []
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

  /** The proxy between this process and NATS. */
  proxyOf(app: App): Proxy {
    const proxy = this.proxies.get(app.name)
    if (proxy === undefined) throw new Error(`${app.name} has no proxy`)
    return proxy
  }

  /** Brings back whatever a test has killed or paused. */
  async heal(): Promise<void> {
    if (this.nats.child.exit !== null) await this.nats.start()
    this.nats.resume()
    for (const app of [...this.relays, ...this.edges]) {
      app.child.resume()
      if (app.child.exit !== null) await app.restart({ wait: false })
    }
    for (const app of [...this.relays, ...this.edges]) await app.ready()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.nc.close()
    await Promise.all(
      [...this.relays, ...this.edges, this.agents, ...this.proxies.values()].map((one) => one[Symbol.asyncDispose]()),
    )
    await this.nats[Symbol.asyncDispose]()
    const left = livingChildren()
    if (left.length > 0) throw new Error(`still running: ${left.join(', ')}`)
  }
}

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
