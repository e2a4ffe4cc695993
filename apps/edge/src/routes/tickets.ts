import { createRoute } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { EdgeEnv } from '../app.ts'
import type { Edge } from '../edge.ts'
import { Problem } from '../problem.ts'
import { problemSchema, ticketSchema } from '../schemas.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const makeTicketRoute = createRoute({
  method: 'post',
  path: '/tickets',
  summary: 'Make a ticket of a token: for an EventSource, which can send no header',
  responses: {
    201: { description: 'The ticket', content: { 'application/json': { schema: ticketSchema } } },
    409: { description: 'This edge asks for no tokens, so there is nothing to make a ticket of', ...problem },
    429: { description: 'Too many tickets', ...problem },
    503: { description: 'NATS cannot be reached', ...problem },
  },
})

/** `POST /tickets`. */
export const makeTicket = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const { token, endsAtMs, ...access } = c.get('access')
  if (token === null || endsAtMs === null) {
    throw new Problem(409, 'conflict', 'this edge asks for no tokens: open the stream without a ticket')
  }
  const made = await edge.tickets.make(edge.store.nats, { ...access, token, endsAtMs })
  return c.json(made, 201)
}
