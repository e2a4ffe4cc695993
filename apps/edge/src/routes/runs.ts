import { randomBytes } from 'node:crypto'
import { createRoute } from '@hono/zod-openapi'
import { z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { grantOfRun } from '@baton/core/grants'
import { isRunId } from '@baton/core/ids'
import { parseRegistration } from '@baton/core/run'
import { register, requestCancel } from '@baton/store/registry'
import { mayLookAt, requireGrant, requireLook } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import type { Edge } from '../edge.ts'
import { Problem } from '../problem.ts'
import { readText } from '../read-body.ts'
import { unknownRun } from '../find-run.ts'
import { fitsLabels, fitsState } from '../run-table.ts'
import { UNKNOWN_HEALTH } from '../run-judge.ts'
import { readKnown, viewRun, type Known } from '../run-view.ts'
import {
  limitQuery,
  problemSchema,
  registrationSchema,
  runListSchema,
  runParams,
  runViewSchema,
  type RunView,
} from '../schemas.ts'

const run = { content: { 'application/json': { schema: runViewSchema } } }
const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const registerRunRoute = createRoute({
  method: 'post',
  path: '/runs',
  summary: 'Register a run',
  request: { body: { required: true, content: { 'application/json': { schema: registrationSchema } } } },
  responses: {
    200: { description: 'The same registration was there already', ...run },
    201: { description: 'Registered', headers: z.object({ Location: z.string() }), ...run },
    400: { description: 'The body is not a registration', ...problem },
    409: { description: 'The id stands for another registration, or for a run that has ended', ...problem },
    413: { description: 'The body is too large', ...problem },
    429: { description: 'This client has too many bytes on their way', ...problem },
  },
})

/** A registration is read whole before it is looked at. */
const MAX_BODY_BYTES = 256 * 1024

/** `POST /runs`. The body is checked whatever its Content-Type says: `curl -d` sends none that fits. */
export const registerRun = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const body = readJson(await readText(c.req.raw, MAX_BODY_BYTES, c.get('held')))
  const id = runIdOf(body)
  // What is no id is told so by the check of the body.
  if (isRunId(id)) requireGrant(c, 'manage', grantOfRun(id))
  const parsed = parseRegistration(id, body)
  if (!parsed.ok) throw new BatonError('invalid', parsed.reason)
  const { created } = await register(edge.store.nats, parsed.value)
  const view = await show(edge, id)
  return created ? c.json(view, 201, { location: `/runs/${id}` }) : c.json(view, 200)
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BatonError('invalid', 'the body is not JSON')
  }
}

const runIdOf = (body: unknown): string =>
  typeof body === 'object' && body !== null && 'run' in body && typeof body.run === 'string'
    ? body.run
    : `run-${randomBytes(8).toString('hex')}`

export const listRunsRoute = createRoute({
  method: 'get',
  path: '/runs',
  summary: 'List runs by id',
  request: {
    query: z.object({
      state: z.enum(['waiting', 'running', 'ended', 'invalid']).optional(),
      label: z
        .union([z.string(), z.array(z.string())])
        .optional()
        .openapi({ description: 'key:value; given several times, all must fit' }),
      limit: limitQuery(100, 500),
      after: z.string().optional().openapi({ description: 'The `next` of the answer before.' }),
    }),
  },
  responses: {
    200: { description: 'A page of runs', content: { 'application/json': { schema: runListSchema } } },
    400: { description: 'A parameter is malformed', ...problem },
  },
})

/** Runs of one list that wait at once for their turn to be looked at. */
const VIEWS_AT_ONCE = 32

export const listRuns = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const { state, limit, after } = listRunsRoute.request.query.parse(c.req.query())
  const labels = c.req.queries('label') ?? []
  if (labels.some((label) => !label.includes(':'))) throw new BatonError('invalid', 'label: must be key:value')
  const { nats, runs, judge, feeds } = edge.store
  const [byState, byLabel] = [fitsState(state), fitsLabels(labels)]
  const { grants } = c.get('access')
  const fits = (known: Known) => mayLookAt(grants, known.run) && byState(known) && byLabel(known)
  const page = await runs.list(fits, after ?? '', limit + 1)
  const fares = await judge.judge(page.slice(0, limit))
  const view = (known: Known) =>
    edge.views.use(() => viewRun(nats, known, fares.get(known.run) ?? UNKNOWN_HEALTH, feeds.subscribersOf(known.run)))
  const shown: RunView[] = []
  for (let at = 0; at < Math.min(limit, page.length); at += VIEWS_AT_ONCE) {
    const part = page.slice(at, Math.min(limit, at + VIEWS_AT_ONCE))
    const views = await Promise.all(part.map(view))
    // The log may say of one that it has ended: then it is none of those that run.
    shown.push(...views.filter((view) => view !== null).filter((view) => state === undefined || view.state === state))
  }
  const last = page[limit - 1]
  return c.json({ runs: shown, next: page.length > limit && last !== undefined ? last.run : null }, 200)
}

export const showRunRoute = createRoute({
  method: 'get',
  path: '/runs/{run}',
  summary: 'Show a run',
  request: { params: runParams },
  responses: {
    200: { description: 'The run', ...run },
    404: { description: 'No such run', ...problem },
  },
})

export const showRun = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const id = paramOf(c)
  requireLook(c, id)
  return c.json(await show(edge, id), 200)
}

export const cancelRunRoute = createRoute({
  method: 'post',
  path: '/runs/{run}/cancel',
  summary: 'Ask the owner of a run to end it',
  request: { params: runParams },
  responses: {
    200: { description: 'It has ended already', ...run },
    202: { description: 'Asked', ...run },
    404: { description: 'No such run', ...problem },
    409: { description: 'Its registration is not valid, or was never there: nobody runs it', ...problem },
  },
})

export const cancelRun = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const id = paramOf(c)
  requireGrant(c, 'manage', grantOfRun(id))
  const before = await show(edge, id)
  if (before.state === 'ended') return c.json(before, 200)
  if (!(await requestCancel(edge.store.nats, id))) {
    throw new Problem(
      409,
      'conflict',
      'the registration of this run is not valid, or was never there: nothing to cancel',
    )
  }
  return c.json(await show(edge, id), 202)
}

const paramOf = (c: Context<EdgeEnv>): string => {
  const id = c.req.param('run') ?? ''
  if (!isRunId(id)) throw unknownRun(id)
  return id
}

async function show(edge: Edge, id: string): Promise<RunView> {
  const { nats, judge, feeds } = edge.store
  const known = await readKnown(nats, id)
  const fares = (await judge.judge([known])).get(id) ?? UNKNOWN_HEALTH
  const view = await viewRun(nats, known, fares, feeds.subscribersOf(id), edge.slots)
  if (view === null) throw unknownRun(id)
  return view
}
