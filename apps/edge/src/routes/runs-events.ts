import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { END, type RunEnd } from '@baton/core/event'
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
import type { RunEnds } from '../run-ends.ts'
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
  const { ends } = scope
  await Promise.all(runs.map((run) => noteUnseen(nats, scope, run, hold)))
  if (ends.areAll) await losePurged(nats, feed, scope)
  const start = await findTimedStart(nats, losses, feed, scope, asked)
  if (!ends.areAll) return start
  const { sequence } = start.place
  if (!start.isReset && asked.kind === 'id' && sequence >= ends.last) return 'over'
  if (sequence < (ends.lastKept?.sequence ?? 0)) return start
  // No event of it is left to come: all there is to say is how they ended.
  return { ...start, end: formatEnds(ends.untoldAfter(sequence), feed.last) }
}

/**
 * Of a set that has ended, and whose log may have been purged since: the stream of whoever opens it now ends with the
 * last end that it can still be given, which is not the last there was.
 */
async function losePurged(nats: Edge['store']['nats'], feed: Feed<TimedEvent>, scope: TimedScope): Promise<void> {
  for (let { lastKept } = scope.ends; lastKept !== null; lastKept = scope.ends.lastKept) {
    if (await isKept(nats, feed, lastKept.run, lastKept.sequence)) return
    scope.ends.lose(lastKept.run)
  }
}

/** Is this event of a run held here, or in the log? That it is not is the word of a leader that has got as far as that. */
async function isKept(
  nats: Edge['store']['nats'],
  { ring }: Feed<TimedEvent>,
  run: string,
  sequence: number,
): Promise<boolean> {
  if (sequence <= ring.last.sequence && ring.locate({ sequence: sequence - 1, mark: 0 }) !== null) return true
  const next = await readNextOf(nats, { stream: STREAM.runs, subjects: [runSubject(run)] }, sequence - 1)
  return next?.sequence === sequence || (await viewStream(nats, STREAM.runs)).lastSequence < sequence
}

function formatEnds(ends: ReturnType<RunEnds['untoldAfter']>, at: Position): string {
  const id = formatPosition(at)
  return ends.map(({ run, said }) => formatOwn(END, { run, ...said }, { id })).join('')
}

/** Knows a run that has ended and of which nothing is kept as ended. Throws the 404 for one nobody has heard of. */
async function noteUnseen(
  nats: Edge['store']['nats'],
  scope: TimedScope,
  run: string,
  hold: Hold<TimedEvent>,
): Promise<void> {
  if (scope.seen.has(run)) return
  if ((await readLastOf(nats, { stream: STREAM.runs, subjects: [runSubject(run)] })) !== null) {
    scope.seen.add(run)
    return
  }
  const known = await readKnown(nats, run)
  if (known.registration === null && known.status === null) {
    hold.release({ now: true })
    throw unknownRun(run)
  }
  if (known.status?.state === 'ended') scope.ends.noteStatus(run, endIn(known.status))
}

function endIn({ end }: RunStatus): RunEnd {
  if (end === null) return { reason: 'completed' }
  return end.detail === null ? { reason: end.reason } : { reason: end.reason, detail: end.detail }
}
