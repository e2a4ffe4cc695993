import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { END } from '@baton/core/event'
import { grantOfRun } from '@baton/core/grants'
import { isRunId } from '@baton/core/ids'
import { formatPosition, type Position } from '@baton/core/position'
import type { RunStatus } from '@baton/core/records'
import type { TimedEvent } from '@baton/core/timed'
import { formatOwn } from '@baton/sse/format'
import { runSubject, STREAM } from '@baton/store/names'
import { readLastOf, readNextOf, viewStream } from '@baton/store/timed-log'
import { requireGrant } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import { readTimedAsked, type Asked } from '../asked.ts'
import type { Edge } from '../edge.ts'
import type { Feed } from '../feed.ts'
import type { Hold } from '../feeds.ts'
import { stateOfRun } from '../mend.ts'
import { openStream, requireStream, type Start } from '../open-stream.ts'
import { unknownRun } from '../find-run.ts'
import { readKnown } from '../run-view.ts'
import { problemSchema, runsStreamQuery } from '../schemas.ts'
import { findTimedStart } from '../find-timed-start.ts'
import { TimedScope, type TimedStore } from '../timed-scope.ts'
import { readTypes } from './run-events.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const runsEventsRoute = createRoute({
  method: 'get',
  path: '/runs/events',
  summary: 'Follow several runs on one connection',
  request: { query: runsStreamQuery },
  responses: {
    200: {
      description: 'Server-sent events as envelopes, in the order of the log, until all runs have ended',
      content: { 'text/event-stream': { schema: z.string() } },
    },
    204: { description: 'All have ended, and the id is that of the last end or a later one' },
    400: { description: 'A parameter is malformed', ...problem },
    404: { description: 'One of them is no run', ...problem },
    406: { description: 'The request accepts no text/event-stream', ...problem },
    429: { description: 'Too many streams opened, or open', ...problem },
    503: { description: 'Draining, or NATS cannot be reached', ...problem },
  },
})

const MAX_RUNS = 100

/** `GET /runs/events?run=a&run=b`. */
export const runsEvents =
  (edge: Edge) =>
  async (c: Context<EdgeEnv>): Promise<Response> => {
    const runs = [...new Set(c.req.queries('run') ?? [])].filter((run) => run !== '').sort()
    if (runs.length === 0) throw new BatonError('invalid', 'run: must be given')
    if (runs.length > MAX_RUNS) throw new BatonError('invalid', `run: at most ${MAX_RUNS} on one connection`)
    const query = runsStreamQuery.parse(c.req.query())
    requireStream(c)
    const header = c.env.incoming.headers['last-event-id'] as string | undefined
    const asked = readTimedAsked(header, query.lastEventId, query.from)
    const wrong = runs.find((run) => !isRunId(run))
    if (wrong !== undefined) throw unknownRun(wrong)
    requireGrant(c, 'subscribe', ...runs.map(grantOfRun))
    return openStream<TimedEvent>(edge, c, {
      scope: ({ store }) => runsScope(store, runs),
      format: 'envelope',
      types: readTypes(query.types),
      decide: ({ store }, hold) => decide(store, hold, runs, asked),
    })
  }

/** Equal sets of runs are one scope, and share its feed. */
function runsScope(store: TimedStore, runs: readonly string[]): TimedScope {
  const [only = ''] = runs
  return new TimedScope(store, {
    key: `runs ${runs.join(' ')}`,
    name: runs.join(' '),
    part: { stream: STREAM.runs, subjects: runs.map(runSubject) },
    topic: null,
    runs,
    state: runs.length === 1 ? stateOfRun(only) : null,
  })
}

async function decide(
  { nats, losses }: Edge['store'],
  hold: Hold<TimedEvent>,
  runs: readonly string[],
  asked: Asked,
): Promise<Start | 'over'> {
  const { feed } = hold
  const scope = feed.scope as TimedScope
  const lost = await Promise.all(runs.map((run) => lostEndOf(nats, scope, run, hold)))
  const start = await findTimedStart(nats, losses, feed, scope, asked)
  if (!scope.allEnded) return start
  if (!start.isReset && asked.kind === 'id' && start.place.sequence >= scope.end) return 'over'
  if (scope.end === 0) {
    // Of none of them an event is kept: all there is to say is how they ended.
    return { ...start, end: formatEnds(runs, lost, start.place) }
  }
  if (await comesStill(nats, feed, scope, asked, start.place)) return start
  // What this edge has seen the log end with was purged since.
  const untold = runs.filter((run) => start.place.sequence >= scope.end || endsBehind(scope, run, start.place))
  const known = await Promise.all(untold.map((run) => readKnown(nats, run)))
  const statuses = known.map(({ status }) => status)
  return { ...start, end: formatEnds(untold, statuses, feed.last) }
}

const endsBehind = (scope: TimedScope, run: string, { sequence }: Position): boolean =>
  (scope.ends.get(run) ?? 0) > sequence

/**
 * Will a client that starts at this place of a set that has ended get its last end, from the log or from what is held
 * here? That the log has it no longer is the word of a leader that has all of it.
 */
async function comesStill(
  nats: Edge['store']['nats'],
  { ring }: Feed<TimedEvent>,
  { part, end }: TimedScope,
  asked: Asked,
  place: Position,
): Promise<boolean> {
  if (place.sequence >= end) return false
  if (asked.kind === 'start' || ring.locate(place) !== null) return true
  if ((await readNextOf(nats, part, place.sequence)) !== null) return true
  return (await viewStream(nats, part.stream)).lastSequence < end
}

function formatEnds(runs: readonly string[], statuses: readonly (RunStatus | null)[], at: Position): string {
  const id = formatPosition(at)
  return runs.map((run, n) => formatOwn(END, { run, ...endIn(statuses[n] ?? null) }, { id })).join('')
}

/** Knows a run that has ended and of which nothing is kept as ended. Throws the 404 for one nobody has heard of. */
async function lostEndOf(
  nats: Edge['store']['nats'],
  scope: TimedScope,
  run: string,
  hold: Hold<TimedEvent>,
): Promise<RunStatus | null> {
  if (scope.seen.has(run)) return null
  if ((await readLastOf(nats, { stream: STREAM.runs, subjects: [runSubject(run)] })) !== null) {
    scope.seen.add(run)
    return null
  }
  const known = await readKnown(nats, run)
  if (known.registration === null && known.status === null) {
    hold.release({ now: true })
    throw unknownRun(run)
  }
  if (known.status?.state === 'ended') scope.ends.set(run, 0)
  return known.status
}

function endIn(status: RunStatus | null): object {
  const end = status?.end ?? { reason: 'completed', detail: null }
  return end.detail === null ? { reason: end.reason } : end
}
