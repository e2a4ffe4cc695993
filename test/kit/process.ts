import { join } from 'node:path'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'
import { root } from './find-binary.ts'
import { freePort } from './free-port.ts'
import { commandAt, LOOPBACK, type Place } from './place.ts'

export type AppOptions = {
  readonly natsUrl: string
  /** More variables, or other values than the test's own defaults. */
  readonly environment?: Readonly<Record<string, string>>
  /** The folder with apps/ and libs/: a changed copy of the source. Default: this checkout. */
  readonly source?: string
  /** The route whose 200 says that it has started. Default: `/readyz`. */
  readonly startedAt?: '/livez' | '/readyz'
  /** Default: this process's own loopback. */
  readonly place?: Place
  /** A module that Node loads before the app: a test's hand inside it. */
  readonly preload?: string
}

/** What an app of ours gets: nothing of the test's own environment that could change how it behaves. */
const environmentOf = (own: Readonly<Record<string, string>>): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '',
  BATON_LOG_LEVEL: 'info',
  ...own,
})

function startApp(app: string, name: string, options: AppOptions, own: Record<string, string>): Child {
  const { source = root, place = LOOPBACK, preload } = options
  const main = join(source, 'apps', app, 'src', 'main.ts')
  const args = preload === undefined ? [main] : ['--import', preload, main]
  const [command, rest] = commandAt(place, process.execPath, args)
  return new Child(name, command, rest, environmentOf(own))
}

/** Who listens for more than loopback must be told that this is meant. */
const openTo = ({ place = LOOPBACK }: AppOptions): Record<string, string> =>
  place === LOOPBACK ? {} : { BATON_HOST: place.address, BATON_AUTH: 'none', BATON_AUTH_NONE_I_KNOW: '1' }

const urlOf = ({ place = LOOPBACK }: AppOptions, port: number): string => `http://${place.address}:${port}`

/** How to see that a process is ready. */
type Readiness = (child: Child) => boolean | Promise<boolean>

const answersAt =
  (url: string): Readiness =>
  async () =>
    (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok

/** A relay's health port is on its own loopback: from elsewhere, only what it says can be seen. */
const saysSo: Readiness = ({ output }) => output.includes('"relay.ready"')

/** Waits until the process is ready, or says with what output it ended. */
async function ready(child: Child, isReady: Readiness): Promise<void> {
  await eventually(
    `${child.name} is ready`,
    () => {
      if (child.exit !== null) throw new Error(`${child.name} ended:\n${child.output.slice(-4000)}`)
      return isReady(child)
    },
    { withinMs: 30_000 },
  )
}

/** A relay, an edge or a watchdog: a process that can be started again with the name, port and variables it had. */
export class App {
  readonly name: string
  readonly url: string
  readonly #start: () => Child
  readonly #isReady: Readiness
  #child: Child
  /** The outputs of those that are dead. */
  readonly #past: string[] = []

  private constructor(name: string, url: string, isReady: Readiness, start: () => Child) {
    this.name = name
    this.url = url
    this.#start = start
    this.#isReady = isReady
    this.#child = start()
  }

  static async start(name: string, url: string, isReady: Readiness, start: () => Child): Promise<App> {
    const app = new App(name, url, isReady, start)
    await app.ready()
    return app
  }

  /** The process as it is now. */
  get child(): Child {
    return this.#child
  }

  get pid(): number {
    return this.#child.pid
  }

  /** Every line it and its earlier lives have said. */
  get output(): string {
    return [...this.#past, this.#child.output].join('')
  }

  /** Drops what its earlier lives have said. */
  forget(): void {
    this.#past.splice(0)
  }

  async ready(): Promise<void> {
    await ready(this.#child, this.#isReady)
  }

  /** Starts it again; resolves when it is ready, unless told not to wait. */
  async restart(options: { wait?: boolean } = {}): Promise<void> {
    await this.#child[Symbol.asyncDispose]()
    this.#past.push(this.#child.output)
    this.#child = this.#start()
    if (options.wait !== false) await this.ready()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]()
  }
}

/** A relay that may reach agents on loopback; `url` is that of its health port. */
export async function startRelay(id: string, options: AppOptions): Promise<App> {
  const port = await freePort()
  const url = urlOf(options, port)
  const { place = LOOPBACK } = options
  return App.start(id, url, place === LOOPBACK ? answersAt(url + (options.startedAt ?? '/readyz')) : saysSo, () =>
    startApp('relay', id, options, {
      BATON_NATS_URL: options.natsUrl,
      BATON_RELAY_ID: id,
      BATON_HEALTH_PORT: String(port),
      BATON_UPSTREAM_ALLOW: '127.0.0.0/8',
      ...options.environment,
    }),
  )
}

/** An edge on a port of its own. */
export async function startEdge(id: string, options: AppOptions): Promise<App> {
  const port = await freePort()
  const url = urlOf(options, port)
  return App.start(id, url, answersAt(url + (options.startedAt ?? '/readyz')), () =>
    startApp('edge', id, options, {
      BATON_NATS_URL: options.natsUrl,
      BATON_PORT: String(port),
      BATON_OPENS_PER_CLIENT: '0',
      ...openTo(options),
      ...options.environment,
    }),
  )
}

/** A watchdog; `url` is that of its health port. */
export async function startWatchdog(id: string, options: AppOptions): Promise<App> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  return App.start(id, url, answersAt(url + (options.startedAt ?? '/readyz')), () =>
    startApp('watchdog', id, options, {
      BATON_NATS_URL: options.natsUrl,
      BATON_HEALTH_PORT: String(port),
      ...options.environment,
    }),
  )
}
