import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Child } from './child.ts'
import { findBinary } from './find-binary.ts'
import { passwordOf, type Role } from './nats-server.ts'
import { commandAt, LOOPBACK, type Place } from './place.ts'

export type NatsNodeOptions = {
  readonly name: string
  /** Of its own: the configuration and the data. */
  readonly folder: string
  readonly port: number
  readonly monitorPort: number
  readonly configuration: string
  /** What the configuration takes from the environment. */
  readonly environment: Readonly<Record<string, string>>
  /** Default: loopback. */
  readonly place?: Place
}

/** One nats-server of a cluster. It can be killed, paused, and started again where it was with its data kept. */
export class NatsNode {
  readonly name: string
  readonly port: number
  readonly dataFolder: string
  readonly #options: NatsNodeOptions
  #child: Child | null = null
  /** What its earlier lives have said. */
  #past = ''
  #isPaused = false

  constructor(options: NatsNodeOptions) {
    this.name = options.name
    this.port = options.port
    this.dataFolder = join(options.folder, 'data')
    this.#options = options
  }

  /** As the tester, who may do all. */
  get url(): string {
    return `nats://baton:baton@${this.host}:${this.port}`
  }

  urlOf(role: Role): string {
    return `nats://${role}:${passwordOf(role)}@${this.host}:${this.port}`
  }

  get host(): string {
    return (this.#options.place ?? LOOPBACK).address
  }

  get child(): Child {
    if (this.#child === null) throw new Error(`${this.name} is not running`)
    return this.#child
  }

  /** All that it has said, its earlier lives included. */
  get output(): string {
    return this.#past + this.child.output
  }

  get pid(): number {
    return this.child.pid
  }

  /** Does it run, and is it not paused? */
  get isUp(): boolean {
    return this.#child !== null && this.#child.exit === null && !this.#isPaused
  }

  /** Resolves when it takes connections; JetStream follows when two of the cluster are there. */
  async start(): Promise<void> {
    const { folder, configuration, environment } = this.#options
    const binary = findBinary('nats-server', 'BATON_NATS_SERVER')
    if (binary === null) throw new Error('no nats-server: run `npm run setup`, or name one in BATON_NATS_SERVER')
    await mkdir(folder, { recursive: true })
    const file = join(folder, 'nats.conf')
    await writeFile(file, configuration)
    this.#isPaused = false
    this.#past += this.#child?.output ?? ''
    const [command, args] = commandAt(this.#options.place ?? LOOPBACK, binary, ['-c', file])
    this.#child = new Child(this.name, command, args, {
      PATH: process.env['PATH'] ?? '',
      NATS_NAME: this.name,
      NATS_DATA: this.dataFolder,
      ...environment,
    })
    await this.#child.said(/Server is ready/)
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

  /** An answer of its monitoring port; throws when it gives none, or one that is no 2xx. */
  async monitor(path: string): Promise<unknown> {
    const url = `http://${this.host}:${this.#options.monitorPort}${path}`
    const response = await fetch(url, { signal: AbortSignal.timeout(1000) })
    if (!response.ok) throw new Error(`${this.name} answers ${response.status} to ${path}: ${await response.text()}`)
    return response.json()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child?.[Symbol.asyncDispose]()
  }
}
