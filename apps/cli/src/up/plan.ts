import { join } from 'node:path'
import type { ChildSpec } from './child.ts'
import { freePort } from './free-port.ts'

export type UpOptions = {
  /** Of the first edge; the next ones follow. */
  readonly port: number
  readonly relays: number
  readonly edges: number
  readonly demo: boolean
  /** Where the embedded NATS server keeps its data. */
  readonly dataFolder: string
  /** Servers to use in place of embedded ones. */
  readonly natsUrl: string | null
  /** Embedded NATS servers: one, or three that keep three replicas of everything. */
  readonly natsNodes: 1 | 3
}

/** The machine and the checkout the system runs in. */
export type Place = {
  readonly root: string
  readonly node: string
  readonly natsServer: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Where the parts are found from outside. */
export type Addresses = {
  /** With the password, where it has one: not for the eyes of others. */
  readonly natsUrl: string
  readonly edgeUrls: readonly string[]
  /** Null without a demo. */
  readonly agentUrl: string | null
  /** What `npx baton` in another terminal has to be told to look at this system; empty where its defaults do. */
  readonly cliEnv: Readonly<Record<string, string>>
}

export type Plan = {
  readonly addresses: Addresses
  readonly children: readonly ChildSpec[]
  /** Ports that were busy, for a person to know. */
  readonly notes: readonly string[]
}

const HOST = '127.0.0.1'
const NATS_PORT = 4222
const NATS_CLUSTER_PORT = 6222
const EDGE_PORT = 8080
const AGENT_PORT = 9000
const HEALTH_PORT = 8090
/** A person who presses Ctrl-C does not wait half a minute. */
const GRACE_MS = '5000'

type Environment = Place['env']

/**
 * What each app is started with, whichever ports are free: the settings of the user, but for those that are decided here. The
 * names and ports are those of the first; each one gets its own.
 */
export function environments(options: UpOptions, env: Environment, natsUrl: string) {
  const common = {
    ...env,
    BATON_NATS_URL: natsUrl,
    ...(options.natsUrl === null && options.natsNodes > 1 ? { BATON_REPLICAS: String(options.natsNodes) } : {}),
    BATON_GRACE_MS: env['BATON_GRACE_MS'] ?? GRACE_MS,
  }
  const listening = (port: number) => ({ ...common, BATON_HOST: HOST, BATON_PORT: String(port) })
  return {
    edge: listening(options.port),
    relay: { ...common, BATON_RELAY_ID: 'relay-1', BATON_HEALTH_PORT: '0', BATON_UPSTREAM_ALLOW: allowed(env) },
    watchdog: { ...common, BATON_HEALTH_PORT: '0' },
    agent: listening(AGENT_PORT),
  }
}

/** Decides who runs, where, and with which settings. Ports are taken in the order a person would look for them. */
export async function plan(options: UpOptions, place: Place): Promise<Plan> {
  const taken = new Set<number>()
  const notes: string[] = []
  const port = async (name: string, wanted: number, from = wanted): Promise<number> => {
    const found = await freePort(from, HOST, taken)
    if (found !== from) notes.push(`port ${from} is busy: ${name} uses ${found}`)
    return found
  }

  const servers = options.natsUrl === null ? await embeddedNats(options, place, port) : []
  const natsUrl = options.natsUrl ?? servers.map(({ url }) => url).join(',')
  const started = environments(options, place.env, natsUrl)
  const child = (name: string, app: keyof typeof started, url: string, env: Record<string, string>): ChildSpec => ({
    name,
    command: place.node,
    args: [join(place.root, 'apps', app, 'src', 'main.ts')],
    env: { ...started[app], ...env },
    cwd: place.root,
    logFile: logFile(options.dataFolder, name),
    url,
    readyUrl: `${url}/readyz`,
  })

  const children: ChildSpec[] = [...servers]
  const edgeUrls: string[] = []
  for (let at = 1, next = options.port; at <= options.edges; at++) {
    const own = await port(`edge-${at}`, next)
    next = own + 1
    const url = `http://${HOST}:${own}`
    edgeUrls.push(url)
    children.push(child(`edge-${at}`, 'edge', url, { BATON_PORT: String(own) }))
  }
  for (let at = 1; at <= options.relays; at++) {
    // Nobody types these: which one it is does not matter, so a busy one is not worth a word.
    const own = await freePort(HEALTH_PORT, HOST, taken)
    const env = { BATON_RELAY_ID: `relay-${at}`, BATON_HEALTH_PORT: String(own) }
    children.push(child(`relay-${at}`, 'relay', `http://${HOST}:${own}`, env))
  }
  const health = await freePort(HEALTH_PORT, HOST, taken)
  children.push(child('watchdog', 'watchdog', `http://${HOST}:${health}`, { BATON_HEALTH_PORT: String(health) }))
  let agentUrl: string | null = null
  if (options.demo) {
    const own = await port('agent', AGENT_PORT)
    agentUrl = `http://${HOST}:${own}`
    children.push(child('agent', 'agent', agentUrl, { BATON_PORT: String(own) }))
  }
  return { addresses: { natsUrl, edgeUrls, agentUrl, cliEnv: cliEnv(servers, edgeUrls) }, children, notes }
}

/** Whoever names a server with `--nats` knows how to reach it. */
function cliEnv(servers: readonly ChildSpec[], edgeUrls: readonly string[]): Record<string, string> {
  const url = servers.map((server) => server.url).join(',')
  return {
    ...(servers.length === 0 || url === `nats://${HOST}:${NATS_PORT}` ? {} : { BATON_NATS_URL: url }),
    ...(edgeUrls[0] === undefined || edgeUrls[0] === `http://${HOST}:${EDGE_PORT}`
      ? {}
      : { BATON_EDGE_URL: edgeUrls.join(',') }),
    ...(servers.length > 1 ? { BATON_REPLICAS: String(servers.length) } : {}),
  }
}

/** The embedded servers: all from the one configuration, told apart by what stands on their command lines. */
async function embeddedNats(
  options: UpOptions,
  place: Place,
  port: (name: string, wanted: number, from?: number) => Promise<number>,
): Promise<ChildSpec[]> {
  const names = natsNames(options.natsNodes)
  const conf = join(place.root, 'nats', 'dev.conf')
  const ports: number[] = []
  for (const name of names) ports.push(await port(name, NATS_PORT, (ports.at(-1) ?? NATS_PORT - 1) + 1))
  const routes: string[] = []
  if (names.length > 1) {
    const taken = new Set(ports)
    for (const _ of names) routes.push(`nats://${HOST}:${await freePort(NATS_CLUSTER_PORT, HOST, taken)}`)
  }
  return names.map((name, at): ChildSpec => {
    const folder = natsFolder(options.dataFolder, name)
    const own = routes[at]
    const cluster =
      own === undefined ? [] : ['-n', name, '--cluster_name', 'baton', '--cluster', own, '--routes', routes.join(',')]
    const url = `nats://${HOST}:${ports[at]}`
    return {
      name,
      command: place.natsServer,
      args: ['-c', conf, '-p', String(ports[at]), '-sd', folder, '-P', pidFileOf(folder), ...cluster],
      env: place.env,
      cwd: place.root,
      logFile: logFile(options.dataFolder, name),
      url,
      readyUrl: url,
    }
  })
}

const natsNames = (nodes: 1 | 3): string[] => (nodes === 1 ? ['nats-server'] : ['nats-1', 'nats-2', 'nats-3'])

/** A single server and a cluster keep different things: neither may find the files of the other. */
const natsFolder = (dataFolder: string, name: string): string =>
  name === 'nats-server' ? dataFolder : join(dataFolder, name)

/** Every folder an embedded server of this system writes to. */
export const natsFolders = (options: UpOptions): string[] =>
  natsNames(options.natsNodes).map((name) => natsFolder(options.dataFolder, name))

export const isNats = ({ name }: ChildSpec): boolean => name.startsWith('nats-')

/** Where the embedded server leaves its pid: who finds it alive keeps away from the data. */
export const pidFileOf = (folder: string): string => join(folder, 'nats-server.pid')

/** Beside the data: two systems of one checkout have two of each. */
const logFile = (dataFolder: string, name: string): string => join(dataFolder, 'logs', `${name}.log`)

/** The relays of this system may reach agents on this machine, and wherever else the user's settings say. */
const allowed = (env: Environment): string =>
  ['127.0.0.0/8', '::1', 'localhost', env['BATON_UPSTREAM_ALLOW'] ?? ''].filter((part) => part !== '').join(',')
