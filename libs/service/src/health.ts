import { createServer, type Server } from 'node:http'
import type { Registry } from 'prom-client'
import { listen } from './listen.ts'

/**
 * Every process loses NATS at the same moment when a leader is elected: were all unready then, there would be nobody left.
 * Only a loss that outlasts an election counts.
 */
export const UNREADY_AFTER_MS = 15_000

/** The two questions an orchestrator asks. `live` never tests a dependency; `ready` may. */
export type Health = { readonly live: () => boolean; readonly ready: () => boolean }

/** Serves `/livez`, `/readyz` and `/metrics` until the signal aborts; the port it got is in the result. */
export async function serveHealth(
  options: { port: number; host: string; health: Health; registry: Registry },
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
    void registry.metrics().then((text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text))
  })
  const listening = await listen(server, host, port, 'BATON_HEALTH_PORT')
  signal.addEventListener('abort', () => server.close(), { once: true })
  return { port: listening, server }
}
