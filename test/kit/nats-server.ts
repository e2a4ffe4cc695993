import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from './child.ts'
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
  /** Default: `nats-1`. */
  readonly name?: string
  /** With the users of nats/accounts.conf: nats/server.conf as it is. Default: nats/dev.conf, where all may do all. */
  readonly users?: boolean
  /** Does the server tell our account when a connection closes? Default true, as in the configuration we ship. */
  readonly notices?: boolean
  /** Of Baton's user; of the tester, who may do all, where a configuration with users has one. */
  readonly password?: string
  /** In place of those we ship for one server: a node's of a cluster. */
  readonly configuration?: string
  /** More lines for the configuration. */
  readonly extra?: string
  readonly place?: Place
  /** Makes the folder its data goes into, e.g. on a disk of its own. */
  readonly prepare?: (dataFolder: string) => void
}

/** One is enough to fail a test. */
const MAX_REFUSED = 1000

/**
 * A real nats-server with a data folder of its own, on a port the kernel chose, alone or of a cluster. It can be killed,
 * paused, and started again on the same port with its data kept.
 */
export class NatsServer {
  readonly name: string
  readonly folder: string
  readonly #options: NatsServerOptions
  #child: Child | null = null
  /** What its earlier lives have said. */
  #past = ''
  #port = -1
  #monitorUrl = ''
  #isPaused = false
  /** What it has refused its users and the test does not know. */
  #refused: string[] = []

  private constructor(folder: string, options: NatsServerOptions) {
    this.name = options.name ?? 'nats-1'
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
    return this.#urlFor(password === undefined ? '' : `baton:${password}@`)
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
    return this.#options.users === true ? this.#urlFor(`${role}:${passwordOf(role)}@`) : this.url
  }

  /** A user of the system account: what an operator would connect as. */
  get systemUrl(): string {
    return this.#options.users === true ? this.urlOf('sys') : this.#urlFor('sys:sys@')
  }

  #urlFor(login: string): string {
    return `nats://${login}${this.host}:${this.#port}`
  }

  /** All that it has said, its earlier lives included. */
  get output(): string {
    return this.#past + this.child.output
  }

  /** What it has refused its users since this was asked last; of very many the first. */
  refusals(): readonly string[] {
    return this.#refused.splice(0)
  }

  get pid(): number {
    return this.child.pid
  }

  get child(): Child {
    if (this.#child === null) throw new Error('nats-server is not running')
    return this.#child
  }

  /** Does it run, and is it not paused? */
  get isUp(): boolean {
    return this.#child !== null && this.#child.exit === null && !this.#isPaused
  }

  /**
   * Starts it, or starts it again where it was; resolves when it takes connections and JetStream is ready. That of a
   * cluster follows when two of its nodes are there.
   */
  async start(): Promise<void> {
    const binary = findBinary('nats-server', 'BATON_NATS_SERVER')
    if (binary === null) throw new Error('no nats-server: run `npm run setup`, or name one in BATON_NATS_SERVER')
    const { args, environment } = await this.#configure()
    const listen = ['-a', this.host, '-p', String(this.#port), '-m', '-1']
    this.#isPaused = false
    this.#past += this.#child?.output ?? ''
    const [command, all] = commandAt(this.#options.place ?? LOOPBACK, binary, [...args, ...listen])
    const child = new Child(this.name, command, all, { PATH: process.env['PATH'] ?? '', ...environment })
    this.#child = child
    // Heard as they come: of what it says only the last is kept.
    child.eachLine((line) => {
      if (line.includes(' Violation - ') && this.#refused.length < MAX_REFUSED) this.#refused.push(line)
    })
    await child.said(/Server is ready/)
    // It writes no file of its ports when it was slow to start; it logs them always.
    this.#port = await portOf(child, /Listening for client connections on \S+:(\d+)/)
    this.#monitorUrl = `http://${this.host}:${await portOf(child, /Starting http monitor on \S+:(\d+)/)}`
  }

  async #configure(): Promise<{ args: string[]; environment: Readonly<Record<string, string>> }> {
    const { users = false, extra = '', configuration } = this.#options
    const written = join(this.folder, 'nats.conf')
    if (!users) {
      await writeFile(written, await forOneMachine(this.#options))
      return { args: ['-c', written, '-sd', this.dataFolder], environment: {} }
    }
    if (extra !== '') throw new Error('a server with users runs with nats/server.conf as it is')
    if (configuration !== undefined) await writeFile(written, configuration)
    const file = configuration === undefined ? join(root, 'nats', 'server.conf') : written
    return { args: ['-c', file], environment: { ...PASSWORDS, NATS_NAME: this.name, NATS_DATA: this.dataFolder } }
  }

  async kill(): Promise<void> {
    await this.child.kill()
  }

  /** Asked to stop, as by a deploy: it hands its leaderships over and writes everything out. */
  async terminate(): Promise<void> {
    await this.child.terminate()
  }

  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  pause(): void {
    this.#isPaused = true
    this.child.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.child.resume()
  }

  /** Brings it back, whether it was killed or paused. */
  async heal(): Promise<void> {
    if (this.child.exit !== null) await this.start()
    this.resume()
  }

  /** An answer of its monitoring port; throws when it gives none, or one that is no 2xx. */
  async monitor(path: string): Promise<unknown> {
    const response = await fetch(this.#monitorUrl + path, { signal: AbortSignal.timeout(1000) })
    if (!response.ok) throw new Error(`${this.name} answers ${response.status} to ${path}: ${await response.text()}`)
    return response.json()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child?.[Symbol.asyncDispose]()
    await rm(this.folder, { recursive: true, force: true })
  }
}

const portOf = async (child: Child, logged: RegExp): Promise<number> => Number((await child.said(logged))[1])

/**
 * The configuration we ship for one machine. A server that is not ours does not say when a connection closes: that is
 * the same text without the lines that let it.
 */
async function forOneMachine({ notices = true, password = 'baton', extra = '' }: NatsServerOptions): Promise<string> {
  const file = await readFile(join(root, 'nats', 'dev.conf'), 'utf8')
  const shipped = file.replace('user: baton, password: baton', `user: baton, password: "${password}"`)
  const silent = shipped.replaceAll(/^ *(exports|imports): .*$/gm, '')
  if (silent.includes('DISCONNECT') || silent === shipped || !shipped.includes(`"${password}"`))
    throw new Error('nats/dev.conf has changed its form')
  return `${notices ? shipped : silent}\n${extra}\n`
}
