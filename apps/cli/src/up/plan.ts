import { existsSync } from 'node:fs'
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
  /** Servers to use in place of an embedded one. */
  readonly natsUrl: string | null
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
  readonly natsUrl: string
  readonly edgeUrls: readonly string[]
  /** Null without a demo. */
  readonly agentUrl: string | null
}

export type Plan = {
  readonly addresses: Addresses
  readonly children: readonly ChildSpec[]
  /** Ports that were busy, for a person to know. */
  readonly notes: readonly string[]
}

const HOST = '127.0.0.1'
const NATS_PORT = 4222
const AGENT_PORT = 9000
const RELAY_HEALTH_PORT = 8090
/** A person who presses Ctrl-C does not wait half a minute. */
const GRACE_MS = '5000'

/** Decides who runs, where, and with which settings. Ports are taken in the order a person would look for them. */
export async function plan(options: UpOptions, place: Place): Promise<Plan> {
  const taken = new Set<number>()
  const notes: string[] = []
  const port = async (name: string, wanted: number, from = wanted): Promise<number> => {
    const found = await freePort(from, HOST, taken)
    if (found !== from) notes.push(`port ${from} is busy: ${name} uses ${found}`)
    return found
  }

  const natsPort = options.natsUrl === null ? await port('nats-server', NATS_PORT) : null
  const natsUrl = options.natsUrl ?? `nats://${HOST}:${natsPort}`
  const common = {
    ...place.env,
    BATON_NATS_URL: natsUrl,
    BATON_GRACE_MS: place.env['BATON_GRACE_MS'] ?? GRACE_MS,
  }
  const child = (name: string, app: string, url: string, env: Record<string, string>): ChildSpec => ({
    name,
    command: place.node,
    args: [join(place.root, 'apps', app, 'src', 'main.ts')],
    env: { ...common, ...env },
    cwd: place.root,
    logFile: logFile(options.dataFolder, name),
    url,
    readyUrl: `${url}/readyz`,
  })

  const children: ChildSpec[] = []
  if (natsPort !== null) children.push(embeddedNats(natsPort, options.dataFolder, place))

  const edgeUrls: string[] = []
  for (let at = 1, next = options.port; at <= options.edges; at++) {
    const own = await port(`edge-${at}`, next)
    next = own + 1
    const url = `http://${HOST}:${own}`
    edgeUrls.push(url)
    children.push(child(`edge-${at}`, 'edge', url, { BATON_HOST: HOST, BATON_PORT: String(own) }))
  }
  for (let at = 1; at <= options.relays; at++) {
    // Nobody types these: which one it is does not matter, so a busy one is not worth a word.
    const own = await freePort(RELAY_HEALTH_PORT, HOST, taken)
    const env = { BATON_RELAY_ID: `relay-${at}`, BATON_HEALTH_PORT: String(own), BATON_UPSTREAM_ALLOW: allowed(place) }
    children.push(child(`relay-${at}`, 'relay', `http://${HOST}:${own}`, env))
  }
  if (existsSync(join(place.root, 'apps/watchdog/src/main.ts'))) {
    const own = await freePort(RELAY_HEALTH_PORT, HOST, taken)
    children.push(child('watchdog', 'watchdog', `http://${HOST}:${own}`, { BATON_HEALTH_PORT: String(own) }))
  }
  let agentUrl: string | null = null
  if (options.demo) {
    const own = await freePort(AGENT_PORT, HOST, taken)
    agentUrl = `http://${HOST}:${own}`
    children.push(child('agent', 'agent', agentUrl, { BATON_PORT: String(own), BATON_HOST: HOST }))
  }
  return { addresses: { natsUrl, edgeUrls, agentUrl }, children, notes }
}

function embeddedNats(port: number, dataFolder: string, place: Place): ChildSpec {
  const conf = join(place.root, 'nats', 'dev.conf')
  return {
    name: 'nats-server',
    command: place.natsServer,
    args: ['-c', conf, '-p', String(port), '-sd', dataFolder, '-P', pidFileOf(dataFolder)],
    env: place.env,
    cwd: place.root,
    logFile: logFile(dataFolder, 'nats-server'),
    url: `nats://${HOST}:${port}`,
    readyUrl: `nats://${HOST}:${port}`,
  }
}

/** Where the embedded server leaves its pid: who finds it alive keeps away from the data. */
export const pidFileOf = (dataFolder: string): string => join(dataFolder, 'nats-server.pid')

/** Beside the data: two systems of one checkout have two of each. */
const logFile = (dataFolder: string, name: string): string => join(dataFolder, 'logs', `${name}.log`)

/** The relays of this system may reach agents on this machine, and wherever else the user's settings say. */
const allowed = (place: Place): string =>
  ['127.0.0.0/8', '::1', 'localhost', place.env['BATON_UPSTREAM_ALLOW'] ?? ''].filter((part) => part !== '').join(',')
