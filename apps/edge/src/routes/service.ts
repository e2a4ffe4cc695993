import { readFile } from 'node:fs/promises'
import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { ALL_RUNS } from '@baton/core/grants'
import { requireGrant } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import type { Edge } from '../edge.ts'
import { Problem } from '../problem.ts'
import { problemSchema, relaySchema } from '../schemas.ts'

const text = { content: { 'text/plain': { schema: z.string() } } }

export const relaysRoute = createRoute({
  method: 'get',
  path: '/relays',
  summary: 'List the relays that beat',
  responses: {
    200: { description: 'The relays', content: { 'application/json': { schema: z.array(relaySchema) } } },
    503: {
      description: 'NATS cannot be reached',
      content: { 'application/problem+json': { schema: problemSchema } },
    },
  },
})

/** Processes and hosts are the business of whoever manages all runs. */
export const listRelays = (edge: Edge) => (c: Context<EdgeEnv>) => {
  requireGrant(c, 'manage', ALL_RUNS)
  return c.json([...edge.store.relays.list()], 200)
}

export const livezRoute = createRoute({
  method: 'get',
  path: '/livez',
  summary: 'Is the process alive? No dependency is looked at',
  responses: { 200: { description: 'Yes', ...text } },
})

export const livez = (c: Context<EdgeEnv>) => c.text('ok\n', 200)

export const readyzRoute = createRoute({
  method: 'get',
  path: '/readyz',
  summary: 'May clients be sent here?',
  responses: { 200: { description: 'Yes', ...text }, 503: { description: 'Not now', ...text } },
})

export const readyz = (edge: Edge) => (c: Context<EdgeEnv>) =>
  edge.ready ? c.text('ok\n', 200) : c.text(edge.draining ? 'draining\n' : 'NATS cannot be reached\n', 503)

export const metricsRoute = createRoute({
  method: 'get',
  path: '/metrics',
  summary: 'Figures for Prometheus',
  responses: { 200: { description: 'The figures', ...text } },
})

/** On the port that clients reach; so, where tokens are asked for, only for whoever manages all runs. */
export const metrics = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  requireGrant(c, 'manage', ALL_RUNS)
  return c.text(await edge.registry.metrics(), 200, { 'content-type': edge.registry.contentType })
}

/** The page at `/` is another app's; it is read as files, when asked for. */
const console = new URL('../../../console/', import.meta.url)
const pages: Readonly<Record<string, { file: string; type: string }>> = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/console.js': { file: 'console.js', type: 'text/javascript; charset=utf-8' },
  '/console.css': { file: 'console.css', type: 'text/css; charset=utf-8' },
  '/icon.svg': { file: 'icon.svg', type: 'image/svg+xml' },
}

export const PAGES: readonly string[] = Object.keys(pages)

export const page = async (c: Context<EdgeEnv>): Promise<Response> => {
  const found = pages[c.req.path]
  const body = found === undefined ? null : await readFile(new URL(found.file, console)).catch(() => null)
  if (found === undefined || body === null) throw new Problem(404, 'not_found', 'there is nothing here')
  return c.body(body, 200, {
    'content-type': found.type,
    'cache-control': 'no-cache',
    'content-security-policy': "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    'x-content-type-options': 'nosniff',
  })
}
