import type { Context, MiddlewareHandler } from 'hono'
import type { EdgeEnv } from '../app.ts'
import type { Edge } from '../edge.ts'
import { Problem } from '../problem.ts'
import { addressOf, refuse } from '../refuse.ts'
import { PAGES } from '../routes/service.ts'
import { everybody, nobody, unauthorized, type Access } from './access.ts'
import { readCredential } from './credential.ts'
import type { Tokens } from './tokens.ts'

/** What orchestrators ask, what a page needs before it has a token, and what says how to get further. */
export const OPEN: ReadonlySet<string> = new Set(['/livez', '/readyz', '/openapi.json', ...PAGES])

const READING = new Set(['GET', 'HEAD'])
const isStream = (path: string): boolean => path.endsWith('/events')

/**
 * Finds out who asks, before any route is looked at: what is not open to all needs a token, or for a stream a ticket.
 * What they may do, each route decides.
 */
export function authenticate(edge: Edge): MiddlewareHandler<EdgeEnv> {
  return async (c, next) => {
    const { tokens } = edge
    const address = addressOf(edge, c)
    // A preflight (OPTIONS) carries nothing to know anybody by.
    if (tokens === null) c.set('access', everybody(address))
    else if (OPEN.has(c.req.path) || c.req.method === 'OPTIONS') c.set('access', nobody(address))
    else {
      // What one may see, another may not: no cache between us may keep it.
      c.header('cache-control', 'no-store')
      try {
        c.set('access', await find(edge, tokens, c, address))
      } catch (error) {
        if (isStream(c.req.path))
          return refuse(edge, c, error instanceof Problem && error.status === 429 ? 'limit' : error)
        throw error
      }
    }
    return next()
  }
}

async function find(edge: Edge, tokens: Tokens, c: Context<EdgeEnv>, address: string): Promise<Access> {
  const credential = readCredential(
    c.env.incoming.headersDistinct,
    (c.req.queries('ticket') ?? []).filter((ticket) => ticket !== ''),
  )
  if (credential.kind === 'none') throw unauthorized('a token is needed', false)
  if (credential.kind === 'ticket') {
    if (!isStream(c.req.path) || !READING.has(c.req.method)) throw unauthorized('a ticket opens streams, nothing else')
    return edge.tickets.open(() => edge.store.nats, credential.ticket, address)
  }
  // A browser sends the cookie with whatever page asks. It names the page in Origin, which the guard has looked at.
  if (credential.from === 'cookie' && !READING.has(c.req.method) && c.req.header('origin') === undefined) {
    throw new Problem(403, 'denied', 'with a cookie, a change needs an Origin header')
  }
  return tokens.read(credential.token)
}
