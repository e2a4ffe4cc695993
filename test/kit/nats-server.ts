import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'
import { findBinary, root } from './find-binary.ts'
import { commandAt, LOOPBACK, type Place } from './place.ts'

/** The users of nats/accounts.conf. */
export const ROLES = ['relay', 'edge', 'watchdog', 'producer', 'subscriber', 'operator', 'sys', 'team-a'] as const
export type Role = (typeof ROLES)[number]

export const passwordOf = (role: Role): string => `of-${role}`

/** What a configuration with the users of nats/accounts.conf wants from the environment. */
export const PASSWORDS: Readonly<Record<string, string>> = Object.fromEntries(
  ROLES.map((role) => [`NATS_${role.toUpperCase().replace('-', '_')}_PASSWORD`, passwordOf(role)]),
)

export type NatsServerOptions = {
  /** With the users of nats/accounts.conf: nats/server.conf as it is. Default: nats/dev.conf, where all may do all. */
  readonly users?: boolean
  /** Does the server tell our account when a connection closes? Default true, as in the configuration we ship. */
  readonly notices?: boolean
  /** Of Baton's user. */
  readonly password?: string
  /** More lines for the configuration. */
  readonly extra?: string
  readonly place?: Place
  /** Makes the folder its data goes into, e.g. on a disk of its own. */
  readonly prepare?: (dataFolder: string) => void
}

/**
 * A real nats-server with a data folder of its own, on a port the kernel chose. It can be killed, paused, and started
 * again on the same port with its data kept.
 */
export class NatsServer {
  readonly name = 'nats-1'
  readonly folder: string
  readonly #options: NatsServerOptions
  #child: Child | null = null
  /** What its earlier lives have said. */
  #past = ''
  #port = -1

  private constructor(folder: string, options: NatsServerOptions) {
    this.folder = folder
    this.#options = options
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    const server = new NatsServer(await mkdtemp(join(tmpdir(), 'baton-nats-')), options)
    options.prepare?.(server.dataFolder)
    await server.start()
    return server
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    const { password } = this.#options
    return `nats://${password === undefined ? '' : `baton:${password}@`}${this.host}:${this.#port}`
  }

  get host(): string {
    return (this.#options.place ?? LOOPBACK).address
  }

  /** Where its streams are. */
  get dataFolder(): string {
    return join(this.folder, 'data')
  }

  /** Where a role connects; everybody at the same place while there are no users. */
  urlOf(role: Role): string {
    return this.#options.users === true ? `nats://${role}:${passwordOf(role)}@${this.host}:${this.#port}` : this.url
  }

  /** A user of the system account: what an operator would connect as. */
  get systemUrl(): string {
    return `nats://sys:sys@${this.host}:${this.#port}`
  }

  /** All that it has said, its earlier lives included. */
  get output(): string {
    return this.#past + this.child.output
  }

  get pid(): number {
    return this.child.pid
  }

  get child(): Child {
    if (this.#child === null) throw new Error('nats-server is not running')
    return this.#child
  }

  /** Starts it, or starts it again where it was; resolves when it takes connections and JetStream is ready. */
  async start(): Promise<void> {
    const binary = findBinary('nats-server', 'BATON_NATS_SERVER')
    if (binary === null) throw new Error('no nats-server: run `npm run setup`, or name one in BATON_NATS_SERVER')
    const { args, environment } = await this.#configure()
    for (const name of await portsFiles(this.folder)) await rm(join(this.folder, name), { force: true })
    const listen = ['-a', this.host, '-p', String(this.#port), '--ports_file_dir', this.folder]
    this.#past += this.#child?.output ?? ''
    const [command, all] = commandAt(this.#options.place ?? LOOPBACK, binary, [...args, ...listen])
    const child = new Child(this.name, command, all, { PATH: process.env['PATH'] ?? '', ...environment })
    this.#child = child
    await child.said(/Server is ready/)
    if (this.#port === -1) this.#port = await writtenPort(this.folder)
  }

  async #configure(): Promise<{ args: string[]; environment: Readonly<Record<string, string>> }> {
    const data = this.dataFolder
    if (this.#options.users === true) {
      const { extra = '' } = this.#options
      if (extra !== '') throw new Error('a server with users runs with nats/server.conf as it is')
      return { args: ['-c', join(root, 'nats', 'server.conf')], environment: { ...PASSWORDS, NATS_DATA: data } }
    }
    const file = join(this.folder, 'nats.conf')
    await writeFile(file, await configuration(this.#options))
    return { args: ['-c', file, '-sd', data], environment: {} }
  }

  async kill(): Promise<void> {
    await this.child.kill()
  }

  /** Asked to stop, as by a deploy: it writes everything out. */
  async terminate(): Promise<void> {
    await this.child.terminate()
  }

  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  pause(): void {
    this.child.pause()
  }

  resume(): void {
    this.child.resume()
  }

  /** Brings it back, whether it was killed or paused. */
  async heal(): Promise<void> {
    if (this.child.exit !== null) await this.start()
    this.resume()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child?.[Symbol.asyncDispose]()
    await rm(this.folder, { recursive: true, force: true })
  }
}

const portsFiles = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith('.ports'))

async function writtenPort(folder: string): Promise<number> {
  return eventually('nats-server writes its ports file', async () => {
    const [name] = await portsFiles(folder)
    if (name === undefined) return null
    const ports = JSON.parse(await readFile(join(folder, name), 'utf8')) as { nats: string[] }
    return Number(new URL(ports.nats[0] ?? '').port)
  })
}

/**
 * The configuration we ship for one machine. A server that is not ours does not say when a connection closes: that is
 * the same text without the lines that let it.
 */
async function configuration({ notices = true, password = 'baton', extra = '' }: NatsServerOptions): Promise<string> {
  const file = await readFile(join(root, 'nats', 'dev.conf'), 'utf8')
  const shipped = file.replace('user: baton, password: baton', `user: baton, password: "${password}"`)
  const silent = shipped.replaceAll(/^ *(exports|imports): .*$/gm, '')
  if (silent.includes('DISCONNECT') || silent === shipped || !shipped.includes(`"${password}"`))
    throw new Error('nats/dev.conf has changed its form')
  return `${notices ? shipped : silent}\n${extra}\n`
}
