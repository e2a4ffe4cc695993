import { join } from 'node:path'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'
import { root } from './find-binary.ts'
import { freePort } from './free-port.ts'

export type AppOptions = {
  readonly natsUrl: string
  /** More variables, or other values than the test's own defaults. */
  readonly environment?: Readonly<Record<string, string>>
  /** The folder with apps/ and libs/: a changed copy of the source. Default: this checkout. */
  readonly source?: string
  /** The route whose 200 says that it has started. Default: `/readyz`. */
  readonly startedAt?: '/livez' | '/readyz'
}

/** What an app of ours gets: nothing of the test's own environment that could change how it behaves. */
const environmentOf = (own: Readonly<Record<string, string>>): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '',
  BATON_LOG_LEVEL: 'info',
  ...own,
})

const startApp = (
  app: string,
  name: string,
  options: { source?: string | undefined },
  own: Record<string, string>,
): Child =>
  new Child(name, process.execPath, [join(options.source ?? root, 'apps', app, 'src', 'main.ts')], environmentOf(own))

/** Waits until a health route answers 200, or says with what output the process ended. */
async function ready(child: Child, url: string): Promise<void> {
  await eventually(
    `${child.name} is ready at ${url}`,
    async () => {
      if (child.exit !== null) throw new Error(`${child.name} ended:\n${child.output.slice(-4000)}`)
      return (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok
    },
    { withinMs: 30_000 },
  )
}

/** A relay, an edge or a watchdog: a process that can be started again with the name, port and variables it had. */
export class App {
  readonly name: string
  readonly url: string
  readonly #start: () => Child
  readonly #readyUrl: string
  #child: Child
  /** The outputs of those that are dead. */
  readonly #past: string[] = []

  private constructor(name: string, url: string, readyUrl: string, start: () => Child) {
    this.name = name
    this.url = url
    this.#start = start
    this.#readyUrl = readyUrl
    this.#child = start()
  }

  static async start(name: string, url: string, readyUrl: string, start: () => Child): Promise<App> {
    const app = new App(name, url, readyUrl, start)
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

  async ready(): Promise<void> {
    await ready(this.#child, this.#readyUrl)
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
  const url = `http://127.0.0.1:${port}`
  return App.start(id, url, url + (options.startedAt ?? '/readyz'), () =>
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
  const url = `http://127.0.0.1:${port}`
  return App.start(id, url, url + (options.startedAt ?? '/readyz'), () =>
    startApp('edge', id, options, {
      BATON_NATS_URL: options.natsUrl,
      BATON_PORT: String(port),
      BATON_OPENS_PER_CLIENT: '0',
      ...options.environment,
    }),
  )
}

/** A watchdog; `url` is that of its health port. */
export async function startWatchdog(id: string, options: AppOptions): Promise<App> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  return App.start(id, url, url + (options.startedAt ?? '/readyz'), () =>
    startApp('watchdog', id, options, {
      BATON_NATS_URL: options.natsUrl,
      BATON_HEALTH_PORT: String(port),
      ...options.environment,
    }),
  )
}
