import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { get as getPlain } from 'node:http'
import { get } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'
import { root } from './find-binary.ts'
import type { GatewayKind } from './find-gateway.ts'
import { freePort } from './free-port.ts'
import type { Certificate } from './certificate.ts'

export type GatewayOptions = {
  /** URLs of the two edges. */
  readonly edges: readonly { readonly url: string }[]
  /** How long a stream may be silent. Default: as shipped. */
  readonly idleMs?: number
  /** Files in the form of PEM. With them it speaks TLS, and HTTP/2, as the lines say that the shipped file has as a comment. */
  readonly tls?: Certificate
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
    const gateway = new Gateway({
      kind,
      url: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
      child,
      folder,
    })
    await eventually(`${kind} lets through to an edge`, async () => {
      if (child.exit !== null) throw new Error(`${kind} ended:\n${child.output.slice(-4000)}`)
      return (await statusOf(`${gateway.url}/readyz`)) === 200
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

/** Whoever has signed the certificate: it is the test's own. */
const statusOf = (url: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const ask = url.startsWith('https:') ? get : getPlain
    ask(url, { agent: false, rejectUnauthorized: false, timeout: 1000 }, (response) => {
      response.resume()
      resolve(response.statusCode)
    }).once('error', reject)
  })

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

type Changes = readonly (readonly [from: string, to: string])[]

/** The shipped file with other ports. A value that is not there exactly once has moved, and the test with it. */
async function configuration(kind: GatewayKind, port: number, options: GatewayOptions): Promise<string> {
  const shipped = await readFile(join(root, 'deploy', fileOf[kind]), 'utf8')
  const changes = kind === 'envoy' ? envoyChanges(port, await freePort(), options) : nginxChanges(port, options)
  return changes.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`deploy/${fileOf[kind]} does not have ${from} exactly once`)
    return text.replace(from, to)
  }, shipped)
}

const portOf = ({ edges }: GatewayOptions, at: number): string => new URL(edges[at]?.url ?? '').port

const envoyChanges = (port: number, adminPort: number, options: GatewayOptions): Changes => [
  ['port_value: 9901', `port_value: ${adminPort}`],
  ['address: 0.0.0.0, port_value: 8000', `address: 127.0.0.1, port_value: ${port}`],
  ['port_value: 8080', `port_value: ${portOf(options, 0)}`],
  ['port_value: 8081', `port_value: ${portOf(options, 1)}`],
  ...(options.idleMs === undefined
    ? []
    : [['stream_idle_timeout: 90s', `stream_idle_timeout: ${options.idleMs / 1000}s`] as const]),
  ...(options.tls === undefined
    ? []
    : ([
        ...ENVOY_TLS.map((line) => [`        # ${line}`, `        ${line}`] as const),
        ['        #   filters:\n        - filters:\n', '          filters:\n'],
        ['/etc/baton/tls.crt', options.tls.certificate],
        ['/etc/baton/tls.key', options.tls.key],
      ] as const)),
]

/** What stands there as a comment. */
const ENVOY_TLS = [
  '- transport_socket:',
  '    name: envoy.transport_sockets.tls',
  '    typed_config:',
  '      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
  '      common_tls_context:',
  '        alpn_protocols: [h2, http/1.1]',
  '        tls_certificates:',
  '          - certificate_chain:',
  '            private_key:',
]

const nginxChanges = (port: number, options: GatewayOptions): Changes => [
  ['listen 8000;', options.tls === undefined ? `listen 127.0.0.1:${port};` : ''],
  ['server 127.0.0.1:8080 ', `server 127.0.0.1:${portOf(options, 0)} `],
  ['server 127.0.0.1:8081 ', `server 127.0.0.1:${portOf(options, 1)} `],
  ...(options.idleMs === undefined
    ? []
    : [['proxy_read_timeout 90s;', `proxy_read_timeout ${options.idleMs}ms;`] as const]),
  ...(options.tls === undefined
    ? []
    : ([
        ['# listen 8443 ssl http2;', `listen 127.0.0.1:${port} ssl http2;`],
        ['# ssl_certificate /etc/baton/tls.crt;', `ssl_certificate ${options.tls.certificate};`],
        ['# ssl_certificate_key /etc/baton/tls.key;', `ssl_certificate_key ${options.tls.key};`],
        ['# http2_max_concurrent_streams 100;', 'http2_max_concurrent_streams 100;'],
      ] as const)),
]
