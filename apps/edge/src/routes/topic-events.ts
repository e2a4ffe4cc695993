import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { grantOfTopic } from '@baton/core/grants'
import { isTopicFilter } from '@baton/core/ids'
import type { TimedEvent } from '@baton/core/timed'
import { findCollision, hasWildcard, reduceFilters } from '@baton/core/topic-filter'
import { STREAM, topicSubject } from '@baton/store/names'
import { requireGrant } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import { readTimedAsked } from '../asked.ts'
import type { Edge } from '../edge.ts'
import { openStream, requireStream } from '../open-stream.ts'
import { problemSchema, topicStreamQuery } from '../schemas.ts'
import { findTimedStart } from '../find-timed-start.ts'
import { TimedScope, type TimedStore } from '../timed-scope.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }

export const topicEventsRoute = createRoute({
  method: 'get',
  path: '/topics/events',
  summary: 'Follow topics',
  request: { query: topicStreamQuery },
  responses: {
    200: { description: 'Server-sent events', content: { 'text/event-stream': { schema: z.string() } } },
    400: { description: 'A parameter is malformed', ...problem },
    406: { description: 'The request accepts no text/event-stream', ...problem },
    429: { description: 'Too many streams opened, or open', ...problem },
    503: { description: 'Draining, or NATS cannot be reached', ...problem },
  },
})

const MAX_FILTERS = 100

/** `GET /topics/events?topic=…`. */
export const topicEvents =
  (edge: Edge) =>
  async (c: Context<EdgeEnv>): Promise<Response> => {
    const filters = readFilters(c.req.queries('topic') ?? [])
    requireGrant(c, 'subscribe', ...filters.map(grantOfTopic))
    const query = topicStreamQuery.parse(c.req.query())
    requireStream(c)
    const header = c.env.incoming.headers['last-event-id'] as string | undefined
    const asked = readTimedAsked(header, query.lastEventId, query.from)
    return openStream<TimedEvent>(edge, c, {
      scope: ({ store }) => topicsScope(edge, store, filters),
      format: query.format ?? 'plain',
      types: null,
      decide: ({ store }, { feed }) => findTimedStart(store.nats, store.losses, feed, feed.scope as TimedScope, asked),
    })
  }

function readFilters(asked: readonly string[]): readonly string[] {
  const names = asked.filter((name) => name !== '')
  if (names.length === 0) throw new BatonError('invalid', 'topic: must be given')
  if (names.length > MAX_FILTERS) throw new BatonError('invalid', `topic: at most ${MAX_FILTERS} on one connection`)
  const wrong = names.find((name) => !isTopicFilter(name))
  if (wrong !== undefined) throw new BatonError('invalid', `topic: ${wrong.slice(0, 128)} is no topic and no filter`)
  const filters = reduceFilters(names)
  const collision = findCollision(filters)
  if (collision === null) return filters
  throw new BatonError('invalid', `topic: ${collision.join(' and ')} overlap; ask for one that covers both`)
}

/** Equal sets of filters are one scope, and share its feed. */
function topicsScope(edge: Edge, store: TimedStore, filters: readonly string[]): TimedScope {
  const [only = ''] = filters
  const topic = filters.length === 1 && !hasWildcard(only) ? only : null
  const template = edge.config.topicStateUrl
  return new TimedScope(store, {
    key: `topics ${filters.join(' ')}`,
    name: filters.join(' '),
    part: { stream: STREAM.topics, subjects: filters.map(topicSubject) },
    topic,
    runs: [],
    state: topic === null || template === null ? null : template.replaceAll('{topic}', encodeURIComponent(topic)),
  })
}
