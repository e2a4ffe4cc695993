import { createServer, type Server } from 'node:http'
import type { Registry } from 'prom-client'

/** The two questions an orchestrator asks. `live` never tests a dependency; `ready` may. */
export type Health = { readonly live: () => boolean; readonly ready: () => boolean }

/** Serves `/livez`, `/readyz` and `/metrics` until the signal aborts; the port it got is in the result. */
export async function serveHealth(
  options: { port: number; host: string; health: Health; registry: () => Registry },
  signal: AbortSignal,
): Promise<{ port: number; server: Server }> {
  const { port, host, health, registry } = options
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?')[0]
    const say = (ok: boolean) =>
      response.writeHead(ok ? 200 : 503, { 'content-type': 'text/plain' }).end(ok ? 'ok\n' : 'no\n')
    if (path === '/livez') return say(health.live())
    if (path === '/readyz') return say(health.ready())
    if (path !== '/metrics') return response.writeHead(404).end()
    const metrics = registry()
    void metrics.metrics().then((text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  signal.addEventListener('abort', () => server.close(), { once: true })
  const address = server.address()
  return { port: typeof address === 'object' && address !== null ? address.port : port, server }
}
