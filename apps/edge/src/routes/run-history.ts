import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { grantOfRun } from '@baton/core/grants'
import { isRunId } from '@baton/core/ids'
import type { StoredEvent } from '@baton/core/event'
import { formatPosition, type Position } from '@baton/core/position'
import { runOrder } from '@baton/core/splice'
import { envelope } from '@baton/sse/format'
import { lastsMs, requireGrant, type Access } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import { readAsked, type RunAsked } from '../asked.ts'
import { neighbourhood } from '../client-address.ts'
import type { Edge } from '../edge.ts'
import { EventEntry } from '../entry.ts'
import type { Feed } from '../feed.ts'
import { findRun, unknownRun } from '../find-run.ts'
import { lostEnd } from '../lost-end.ts'
import { resetOf, stateOfRun } from '../mend.ts'
import { Problem } from '../problem.ts'
import { OPEN_TIMEOUT_MS } from '../refuse.ts'
import { endOf, runScope } from '../run-scope.ts'
import { historySchema, limitQuery, problemSchema, runParams, wholeQuery } from '../schemas.ts'
import { findStart, type RunStart } from '../find-start.ts'
import { within } from '../within.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const runHistoryRoute = createRoute({
  method: 'get',
  path: '/runs/{run}/history',
  summary: 'Read the events of a run as JSON, page by page',
  request: {
    params: runParams,
    query: z.object({
      after: z.string().optional().openapi({ description: 'The id to go on from: a `next`, or that of any frame.' }),
      from: z.string().optional().openapi({ description: 'As for the events; `after` comes first.' }),
      limit: limitQuery(100, 10_000),
      wait: wholeQuery(0, 0, 60).openapi({ description: 'Seconds to wait when there is nothing new.' }),
    }),
  },
  responses: {
    200: { description: 'A page of events', content: { 'application/json': { schema: historySchema } } },
    400: { description: 'A parameter is malformed', ...problem },
    404: { description: 'No such run', ...problem },
    429: { description: 'Too many requests wait', ...problem },
    503: { description: 'NATS cannot be reached', ...problem },
  },
})

/** A page ends here even below its limit, or one request could ask for a gigabyte. */
const PAGE_BYTES = 4 * 2 ** 20

export const runHistory = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const run = c.req.param('run') ?? ''
  const { after, from, limit, wait } = runHistoryRoute.request.query.parse(c.req.query())
  const asked = readAsked(undefined, after, from)
  if (!isRunId(run)) throw unknownRun(run)
  requireGrant(c, 'subscribe', grantOfRun(run))
  const gone = AbortSignal.any([c.req.raw.signal, AbortSignal.timeout(wait * 1000 + 2 * OPEN_TIMEOUT_MS)])
  const { feeds, nats } = edge.store
  const hold = await feeds.hold(runScope(nats, run))
  try {
    const { feed } = hold
    const lost = feed.head === null ? await lostEnd(feed, await findRun(nats, hold)) : null
    const start = await within(OPEN_TIMEOUT_MS, findStart(nats, feed, asked, lost, gone))
    if (start.kind === 'over') return c.json(answer(feed, feed.last, [], true, null), 200)
    if (wait > 0 && start.lostEnd === null) {
      await waitBeyond(edge, c.get('access'), feed, start.place, wait * 1000, gone)
    }
    const { events, reset } = await readPage(edge, feed, start, limit, gone)
    const [newest] = events.slice(-1)
    const place = newest === undefined ? (reset?.place ?? start.place) : runOrder.position(newest)
    const ended =
      start.lostEnd !== null ||
      (endOf(feed) !== null && place.sequence >= feed.last.sequence && !isBehind(place, feed.last))
    return c.json(answer(feed, place, events, ended, reset), 200)
  } catch (error) {
    // An AbortError is the platform's word for it; ours is that this could not be answered now.
    if (error === gone.reason) throw new BatonError('unavailable', `history of run ${run}: given up`, { cause: error })
    throw error
  } finally {
    hold.release()
  }
}

type At = RunStart & { kind: 'at' }

/** The events after a place; where it was trimmed a moment ago, the oldest there are, and the notice of it. */
async function readPage(
  edge: Edge,
  feed: Feed<StoredEvent>,
  start: At,
  limit: number,
  signal: AbortSignal,
): Promise<{ events: readonly StoredEvent[]; reset: At['reset'] }> {
  const events = await readAfter(edge, feed, start.place, limit, signal)
  if (events !== null) return { events, reset: start.reset }
  const asked: RunAsked = { kind: 'id', text: formatPosition(start.place), position: start.place }
  const again = await findStart(edge.store.nats, feed, asked, null, signal)
  if (again.kind === 'over') return { events: [], reset: start.reset }
  return { events: (await readAfter(edge, feed, again.place, limit, signal)) ?? [], reset: again.reset }
}

/** Events that follow a place without a hole; null when the next one is gone. */
async function readAfter(
  edge: Edge,
  feed: Feed<StoredEvent>,
  place: Position,
  limit: number,
  signal: AbortSignal,
): Promise<StoredEvent[] | null> {
  const { ring, scope } = feed
  const number = ring.locate(place)
  const page: StoredEvent[] = []
  let bytes = 0
  let next = place.mark + 1
  const takes = (event: StoredEvent): boolean => {
    if (event.index !== next || page.length >= limit || (bytes > 0 && bytes + event.data.length > PAGE_BYTES))
      return false
    page.push(event)
    bytes += event.data.length
    next++
    return true
  }
  if (number !== null) {
    for (const entry of ring.from(number)) if (!(entry instanceof EventEntry) || !takes(entry.event)) break
    return page
  }
  const giveBack = await edge.slots.take(signal)
  try {
    for await (const events of scope.pages(place, false, signal)) {
      for (const event of events) if (!takes(event)) return page.length === 0 ? null : page
    }
    return page
  } finally {
    giveBack()
  }
}

/** The index decides; where one was written by hand it may be beyond that of what follows. */
const isBehind = (place: Position, last: Position): boolean =>
  last.mark > place.mark || (last.mark < place.mark && last.sequence > place.sequence)

/** Waits until there is an event after the place, or for so long. */
async function waitBeyond(
  edge: Edge,
  access: Access,
  feed: Feed<StoredEvent>,
  place: Position,
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { maxConnections } = edge.config
  const leave =
    maxConnections > 0 && edge.load >= maxConnections ? null : edge.connections.enter(neighbourhood(access.client))
  if (leave === null) {
    throw new Problem(429, 'limit', 'too many requests wait; try again later', { 'retry-after': '2' })
  }
  edge.polls++
  try {
    const until = AbortSignal.any([
      signal,
      edge.leaving,
      AbortSignal.timeout(Math.min(waitMs, Math.max(0, lastsMs(access)))),
    ])
    while (!until.aborted && !isBehind(place, feed.last)) await feed.changed(until)
  } finally {
    edge.polls--
    leave()
  }
}

function answer(
  feed: Feed<StoredEvent>,
  place: Position,
  events: readonly StoredEvent[],
  ended: boolean,
  reset: At['reset'],
) {
  const { head } = feed
  return {
    events: events.map(envelope),
    next: formatPosition(place),
    head: head === null ? null : { sequence: head.sequence, index: head.index },
    ended,
    reset: reset === null ? null : resetOf(stateOfRun(feed.scope.name), reset),
  }
}
