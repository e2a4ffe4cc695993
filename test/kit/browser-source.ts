import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { eventually } from './eventually.ts'

/** What a page's EventSource has been given, as the page saw it. */
export type Seen = { readonly id: string; readonly name: string; readonly data: string }

/** `connecting`: it comes back by itself; `closed`: it has given up for good, or was closed. */
export type State = 'connecting' | 'open' | 'closed'

type Kept = { readonly source: EventSource; readonly seen: Seen[]; opens: number }

/** The EventSource of a real browser, in a page of ours. */
export class BrowserSource {
  readonly #page: Page
  readonly #key: string

  private constructor(page: Page, key: string) {
    this.#page = page
    this.#key = key
  }

  /** Opens one that listens to these names, and to all that Baton says itself. */
  static async open(
    page: Page,
    url: string,
    options: { names?: readonly string[]; withCredentials?: boolean } = {},
  ): Promise<BrowserSource> {
    const { names = [], withCredentials = false } = options
    const own = ['open', 'position', 'gap', 'end', 'reset', 'busy', 'bye'].map((name) => `stream.${name}`)
    const key = await page.evaluate(
      ({ url: address, listened, credentials }) => {
        const source = new EventSource(address, { withCredentials: credentials })
        const kept: Kept = { source, seen: [], opens: 0 }
        const take = (event: Event) => {
          const { lastEventId, type, data } = event as MessageEvent
          kept.seen.push({ id: lastEventId, name: type, data: String(data) })
        }
        source.addEventListener('open', () => kept.opens++)
        for (const name of ['message', ...listened]) source.addEventListener(name, take)
        const all = globalThis as unknown as Record<string, Kept>
        const name = `source-${Object.keys(all).length}-${Math.random()}`
        all[name] = kept
        return name
      },
      { url, listened: [...own, ...names], credentials: withCredentials },
    )
    return new BrowserSource(page, key)
  }

  async look(): Promise<{ seen: readonly Seen[]; state: State | undefined; opens: number }> {
    return this.#page.evaluate((name) => {
      const { source, seen, opens } = (globalThis as unknown as Record<string, Kept>)[name] as Kept
      return { seen, opens, state: (['connecting', 'open', 'closed'] as const)[source.readyState] }
    }, this.#key)
  }

  /** Waits until it has something of this name; answers the last such. */
  async until(name: string, count = 1, withinMs = 20_000): Promise<Seen> {
    return eventually(
      `a browser's EventSource gets ${count} of ${name}`,
      async () => {
        const { seen, state } = await this.look()
        const found = seen.filter((one) => one.name === name)
        if (found.length < count) throw new Error(`it is ${state} and has ${JSON.stringify(seen.slice(-5))}`)
        return found[count - 1]
      },
      { withinMs },
    )
  }

  /** The texts it got under a name. */
  async texts(name: string): Promise<readonly string[]> {
    return (await this.look()).seen.filter((one) => one.name === name).map(({ data }) => data)
  }

  async untilClosed(withinMs = 20_000): Promise<void> {
    await eventually('it has given up for good', async () => (await this.look()).state === 'closed', { withinMs })
  }
}

/** An origin of its own, with an empty page. */
export async function servePage(): Promise<{ origin: string } & Disposable> {
  const server = createServer((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>a page</title>'),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const { port } = server.address() as { port: number }
  return {
    origin: `http://127.0.0.1:${port}`,
    [Symbol.dispose]: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
