import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'
import { root } from './find-binary.ts'
import type { GatewayKind } from './find-gateway.ts'
import { freePort } from './free-port.ts'

export type GatewayOptions = {
  /** URLs of the two edges. */
  readonly edges: readonly { readonly url: string }[]
  /** How long a stream may be silent. Default: as shipped. */
  readonly idleMs?: number
}

/** A real Envoy or nginx before two edges, with the configuration in deploy/ but for its ports. */
export class Gateway {
  readonly kind: GatewayKind
  readonly url: string
  readonly child: Child
  readonly #folder: string

  private constructor(parts: { kind: GatewayKind; url: string; child: Child; folder: string }) {
    this.kind = parts.kind
    this.url = parts.url
    this.child = parts.child
    this.#folder = parts.folder
  }

  static async start(kind: GatewayKind, binary: string, options: GatewayOptions): Promise<Gateway> {
    const folder = await mkdtemp(join(tmpdir(), `baton-${kind}-`))
    const port = await freePort()
    const file = join(folder, fileOf[kind])
    await writeFile(file, await configuration(kind, port, options))
    const args = argumentsOf(kind, folder, file)
    const child = new Child(kind, binary, args, { PATH: process.env['PATH'] ?? '' })
    const gateway = new Gateway({ kind, url: `http://127.0.0.1:${port}`, child, folder })
    await eventually(`${kind} lets through to an edge`, async () => {
      if (child.exit !== null) throw new Error(`${kind} ended:\n${child.output.slice(-4000)}`)
      return (await fetch(`${gateway.url}/readyz`, { signal: AbortSignal.timeout(1000) })).ok
    })
    return gateway
  }

  /** All that it has logged: nginx has a file for what was asked. */
  async said(): Promise<string> {
    const asked = this.kind === 'nginx' ? await readFile(join(this.#folder, 'access.log'), 'utf8') : ''
    return this.child.output + asked
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child[Symbol.asyncDispose]()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

const fileOf: Record<GatewayKind, string> = { envoy: 'envoy.yaml', nginx: 'nginx.conf' }

function argumentsOf(kind: GatewayKind, folder: string, file: string): string[] {
  // Without a process of its own for its workers: those would outlive a master that is killed with the test.
  if (kind === 'nginx') return ['-e', 'stderr', '-p', folder, '-c', file, '-g', 'master_process off;']
  return [
    '-c',
    file,
    '--disable-hot-restart',
    '--concurrency',
    '1',
    '--log-level',
    'warning',
    '--file-flush-interval-msec',
    '100',
  ]
}

/** The shipped file with other ports. A value that is not there exactly once has moved, and the test with it. */
async function configuration(kind: GatewayKind, port: number, options: GatewayOptions): Promise<string> {
  const shipped = await readFile(join(root, 'deploy', fileOf[kind]), 'utf8')
  const [one, other] = options.edges.map(({ url }) => new URL(url).port)
  const idleMs = options.idleMs ?? null
  const idle = idleMs === null ? '90s' : kind === 'envoy' ? `${idleMs / 1000}s` : `${idleMs}ms`
  const changes: readonly (readonly [string, string])[] =
    kind === 'envoy'
      ? [
          ['port_value: 9901', `port_value: ${await freePort()}`],
          ['address: 0.0.0.0, port_value: 8000', `address: 127.0.0.1, port_value: ${port}`],
          ['port_value: 8080', `port_value: ${one}`],
          ['port_value: 8081', `port_value: ${other}`],
          ['stream_idle_timeout: 90s', `stream_idle_timeout: ${idle}`],
        ]
      : [
          ['listen 8000;', `listen 127.0.0.1:${port};`],
          ['server 127.0.0.1:8080 ', `server 127.0.0.1:${one} `],
          ['server 127.0.0.1:8081 ', `server 127.0.0.1:${other} `],
          ['proxy_read_timeout 90s;', `proxy_read_timeout ${idle};`],
        ]
  return changes.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`deploy/${fileOf[kind]} does not have ${from} exactly once`)
    return text.replace(from, to)
  }, shipped)
}
