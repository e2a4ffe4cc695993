import type { Context } from 'hono'
import { isCode } from '@baton/core/errors'
import { formatOwn, opening, STREAM_HEADERS } from '@baton/sse/format'
import { isEventSource } from './accepts.ts'
import type { EdgeEnv } from './app.ts'
import { clientAddress, neighbourhood } from './client-address.ts'
import type { Edge } from './edge.ts'
import { Problem, UNAVAILABLE } from './problem.ts'
import { busyMs, type BusyReason } from './retry.ts'

/** A stream that cannot be decided on in this time is refused for now. */
export const OPEN_TIMEOUT_MS = 5000

/** Why no stream may be opened now; null when one may. */
export function refusalOf(edge: Edge, c: Context<EdgeEnv>): BusyReason | null {
  const { config } = edge
  if (edge.draining) return 'draining'
  if (config.maxConnections > 0 && edge.load >= config.maxConnections) return 'limit'
  return edge.opens.take(neighbourhood(c.get('access').client), performance.now()) ? null : 'limit'
}

/** The address of who asks: whom nobody knows better is known by that. */
export const addressOf = (edge: Edge, c: Context<EdgeEnv>): string =>
  clientAddress(c.env.incoming.socket.remoteAddress, c.req.header('x-forwarded-for'), edge.isTrusted)

const said: Record<BusyReason, { status: 429 | 503; detail: string }> = {
  limit: { status: 429, detail: 'too many streams; try again later' },
  draining: { status: 503, detail: 'this edge is going away; try again' },
  unavailable: { status: 503, detail: UNAVAILABLE },
}

/**
 * Answers a request for a stream that cannot be served now. An EventSource is told in a stream that ends, and keeps
 * its position; any other client gets the status. What is no matter of now is thrown on.
 */
export function refuse(edge: Edge, c: Context<EdgeEnv>, why: unknown): Response {
  const reason = typeof why === 'string' ? (why as BusyReason) : isCode(why, 'unavailable') ? 'unavailable' : null
  if (reason === null) {
    edge.metrics.opened('refused')
    throw why
  }
  edge.metrics.opened('busy')
  const retryAfterMs = busyMs(reason, Math.random())
  if (isEventSource(c.req.header('accept'), c.req.header('baton-client'))) {
    const block = opening(retryAfterMs) + formatOwn('stream.busy', { reason, retryAfterMs })
    return c.body(block, 200, { ...STREAM_HEADERS })
  }
  const { status, detail } = said[reason]
  throw new Problem(status, reason, detail, { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) })
}
