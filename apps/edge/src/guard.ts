import type { MiddlewareHandler } from 'hono'
import type { EdgeEnv } from './app.ts'
import { Problem } from './problem.ts'

const READING = new Set(['GET', 'HEAD', 'OPTIONS'])
const DAY_SECONDS = '86400'

/**
 * Lets pages of the given origins read (CORS), with cookies where the origin was named, and pages of any other origin
 * change nothing: a browser sends their POST even where they may not see the answer. All headers are set before the
 * handler runs, for a stream sends its head itself.
 */
export function guard(origins: readonly string[]): MiddlewareHandler<EdgeEnv> {
  const everybody = origins.includes('*')
  const listed = new Set(origins)
  return async (c, next) => {
    const origin = c.req.header('origin')
    // Also an answer to nobody's page: a cache must not give it to one.
    if (!everybody) c.header('vary', 'Origin')
    if (origin === undefined) return next()
    const allowed = everybody || listed.has(origin)
    if (allowed) {
      c.header('access-control-allow-origin', everybody ? '*' : origin)
      if (!everybody) c.header('access-control-allow-credentials', 'true')
      c.header('access-control-expose-headers', 'Location, Retry-After, WWW-Authenticate')
      if (c.req.method === 'OPTIONS') {
        c.header('access-control-allow-methods', 'GET, HEAD, POST, OPTIONS')
        c.header(
          'access-control-allow-headers',
          'Authorization, Baton-Client, Content-Type, Idempotency-Key, Last-Event-ID',
        )
        c.header('access-control-max-age', DAY_SECONDS)
      }
    }
    if (!allowed && !READING.has(c.req.method) && !isSameOrigin(origin, c.req.header('host'))) {
      throw new Problem(403, 'denied', 'pages of this origin may not do that')
    }
    return next()
  }
}

const isSameOrigin = (origin: string, host: string | undefined): boolean =>
  URL.canParse(origin) && new URL(origin).host === host
