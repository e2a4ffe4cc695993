import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { END, type StoredEvent } from '@baton/core/event'
import { grantOfRun } from '@baton/core/grants'
import { isRunId } from '@baton/core/ids'
import { formatPosition } from '@baton/core/position'
import { formatOwn } from '@baton/sse/format'
import { requireGrant } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import { readAsked, type RunAsked } from '../asked.ts'
import type { Edge } from '../edge.ts'
import type { Hold } from '../feeds.ts'
import { findRun, unknownRun } from '../find-run.ts'
import { lostEnd } from '../lost-end.ts'
import { openStream, requireStream, type Start } from '../open-stream.ts'
import { runScope } from '../run-scope.ts'
import { problemSchema, runParams, streamQuery } from '../schemas.ts'
import { findStart } from '../find-start.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const runEventsRoute = createRoute({
  method: 'get',
  path: '/runs/{run}/events',
  summary: 'Follow a run',
  request: { params: runParams, query: streamQuery },
  responses: {
    200: {
      description: 'Server-sent events, to the end of the run',
      content: { 'text/event-stream': { schema: z.string() } },
    },
    204: { description: 'The id is that of the end of the run: nothing more will come' },
    400: { description: 'A parameter is malformed', ...problem },
    404: { description: 'No such run', ...problem },
    406: { description: 'The request accepts no text/event-stream', ...problem },
    429: { description: 'Too many streams opened, or open', ...problem },
    503: { description: 'Draining, or NATS cannot be reached', ...problem },
  },
})

/** No names at all is no filter: a page that joins an empty list wants everything. */
export function readTypes(text: string | undefined): readonly string[] | null {
  const types = (text ?? '').split(',').flatMap((type) => type.trim() || [])
  return types.length === 0 ? null : types
}

/** `GET /runs/:run/events`. */
export const runEvents =
  (edge: Edge) =>
  async (c: Context<EdgeEnv>): Promise<Response> => {
    const run = c.req.param('run') ?? ''
    const query = streamQuery.parse(c.req.query())
    requireStream(c)
    const header = c.env.incoming.headers['last-event-id'] as string | undefined
    const asked = readAsked(header, query.lastEventId, query.from)
    if (!isRunId(run)) throw unknownRun(run)
    requireGrant(c, 'subscribe', grantOfRun(run))
    return openStream<StoredEvent>(edge, c, {
      scope: ({ store }) => runScope(store.nats, run),
      format: query.format ?? 'plain',
      types: readTypes(query.types),
      decide: ({ store }, hold, signal) => decide(store.nats, hold, asked, signal),
      ...(query.status === '1' ? { seat: ({ store }, { feed }) => store.statuses.seat(feed) } : {}),
    })
  }

async function decide(
  nats: Edge['store']['nats'],
  hold: Hold<StoredEvent>,
  asked: RunAsked,
  signal: AbortSignal,
): Promise<Start | 'over'> {
  const { feed } = hold
  const lost = feed.head === null ? await lostEnd(feed, await findRun(nats, hold)) : null
  const start = await findStart(nats, feed, asked, lost, signal)
  if (start.kind === 'over') return 'over'
  const { place, block, reset } = start
  const end = start.lostEnd === null ? null : formatOwn(END, start.lostEnd, { id: formatPosition(place) })
  return { place, block, isReset: reset !== null, told: false, end }
}
