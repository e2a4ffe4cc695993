import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { grantOfTopic } from '@baton/core/grants'
import { isTopic } from '@baton/core/ids'
import { formatPosition } from '@baton/core/position'
import { readLedInfo } from '@baton/store/led'
import { STREAM, topicSubject } from '@baton/store/names'
import { messageId, publishTopic, publishTopics, type Published, type TopicMessage } from '@baton/store/publish-topic'
import { readLastOf, readNextOf, viewStream } from '@baton/store/timed-log'
import { requireGrant } from '../access/access.ts'
import type { EdgeEnv } from '../app.ts'
import type { Edge } from '../edge.ts'
import { parseExactly } from '../exact-json.ts'
import { Problem } from '../problem.ts'
import { readText } from '../read-body.ts'
import {
  problemSchema,
  publishedSchema,
  publishManySchema,
  publishSchema,
  topicParams,
  topicViewSchema,
} from '../schemas.ts'

const problem = { content: { 'application/problem+json': { schema: problemSchema } } }
const refusals = {
  400: { description: 'The topic or the body is malformed', ...problem },
  413: { description: 'Larger than the store takes', ...problem },
  429: { description: 'This publisher is over its rate, or has too many bytes on their way', ...problem },
  503: { description: 'Draining, or NATS cannot be reached; it may or may not have been stored', ...problem },
  507: { description: 'The store is at its limit', ...problem },
}

/** Read whole before it is looked at; what one event may have depends on the NATS server. */
const MAX_BODY_BYTES = 8 * 2 ** 20
const MAX_KEY_CHARACTERS = 1024

export const publishTopicRoute = createRoute({
  method: 'post',
  path: '/topics/{topic}',
  summary: 'Publish an event: the body is its data',
  request: {
    params: topicParams,
    headers: z.object({
      'idempotency-key': z.string().optional().openapi({
        description: 'Two requests of one publisher to one topic with the same key within 2 min store one.',
      }),
    }),
    body: { required: true, content: { 'text/plain': { schema: z.string() } } },
  },
  responses: {
    200: {
      description: 'Stored before under this key',
      content: { 'application/json': { schema: publishedSchema } },
    },
    201: { description: 'Stored', content: { 'application/json': { schema: publishedSchema } } },
    ...refusals,
  },
})

/** `POST /topics/:topic`. A 2xx is the word of the store: the event is there, at this sequence. */
export const publishOne = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const topic = requireTopic(c.req.param('topic') ?? '')
  requireGrant(c, 'publish', grantOfTopic(topic))
  const data = await readText(c.req.raw, MAX_BODY_BYTES, c.get('held'), 'data')
  const key = (c.req.header('idempotency-key') ?? '').trim()
  if (key.length > MAX_KEY_CHARACTERS) {
    throw new BatonError('invalid', `Idempotency-Key: at most ${MAX_KEY_CHARACTERS} characters`)
  }
  const publisher = admit(edge, c, 1)
  const id = key === '' ? null : messageId(publisher, topic, key)
  const published = await publishTopic(storeOf(edge), { topic, type: null, data }, id)
  return c.json(view(topic, published), published.duplicate ? 200 : 201)
}

export const publishManyRoute = createRoute({
  method: 'post',
  path: '/topics',
  summary: 'Publish an event as JSON, or several, all or none',
  request: {
    body: {
      required: true,
      content: { 'application/json': { schema: z.union([publishSchema, publishManySchema]) } },
    },
  },
  responses: {
    201: {
      description: 'Stored; an array is answered by an array',
      content: { 'application/json': { schema: z.union([publishedSchema, z.array(publishedSchema)]) } },
    },
    ...refusals,
  },
})

/** `POST /topics`. */
export const publishMany = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const body = readJson(await readText(c.req.raw, MAX_BODY_BYTES, c.get('held')))
  const found = (Array.isArray(body) ? publishManySchema : publishSchema).safeParse(body)
  if (!found.success) {
    const complaints = found.error.issues.map((issue) => `${issue.path.join('.') || 'body'}: ${issue.message}`)
    throw new BatonError('invalid', complaints.slice(0, 10).join('; '))
  }
  // A batch with one key twice in it would be refused whole, and no answer could name the first ones.
  if (c.req.header('idempotency-key') !== undefined) {
    throw new BatonError('invalid', 'Idempotency-Key: goes with POST /topics/<topic> only')
  }
  const messages = [found.data].flat().map(toMessage)
  requireGrant(c, 'publish', ...messages.map(({ topic }) => grantOfTopic(topic)))
  admit(edge, c, messages.length)
  const nats = storeOf(edge)
  if (!Array.isArray(found.data)) {
    const [only] = messages as [TopicMessage]
    return c.json(view(only.topic, await publishTopic(nats, only, null)), 201)
  }
  const published = await edge.batches.use(() => publishTopics(nats, messages))
  return c.json(
    published.map((one, at) => view((messages[at] as TopicMessage).topic, one)),
    201,
  )
}

export const showTopicRoute = createRoute({
  method: 'get',
  path: '/topics/{topic}',
  summary: 'Show where a topic stands',
  request: { params: topicParams },
  responses: {
    200: { description: 'The topic', content: { 'application/json': { schema: topicViewSchema } } },
    400: { description: 'That is no topic', ...problem },
    503: { description: 'NATS cannot be reached', ...problem },
  },
})

/** `GET /topics/:topic`. The position is looked up first: who follows from it misses nothing of what is shown later. */
export const showTopic = (edge: Edge) => async (c: Context<EdgeEnv>) => {
  const topic = requireTopic(c.req.param('topic') ?? '')
  requireGrant(c, 'subscribe', grantOfTopic(topic))
  const { nats } = edge.store
  const subject = topicSubject(topic)
  const part = { stream: STREAM.topics, subjects: [subject] }
  const { last: position } = await viewStream(nats, STREAM.topics)
  const [first, last, info] = await Promise.all([
    readNextOf(nats, part, 0),
    readLastOf(nats, part),
    readLedInfo(nats, STREAM.topics, subject),
  ])
  const messages = info.state.subjects?.[subject] ?? 0
  return c.json({ topic, position: formatPosition(position), first: place(first), last: place(last), messages }, 200)
}

const place = (event: { sequence: number } | null) => (event === null ? null : { sequence: event.sequence })

function requireTopic(topic: string): string {
  if (isTopic(topic)) return topic
  throw new BatonError(
    'invalid',
    'topic: must be 1 to 8 names of A-Z a-z 0-9 _ - joined by dots, and not begin with stream',
  )
}

function toMessage({ topic, data, type }: z.infer<typeof publishSchema>): TopicMessage {
  const text = typeof data === 'string' ? data : JSON.stringify(data)
  // Half of a surrogate pair has no bytes in UTF-8: another character would be stored in its place.
  if (!text.isWellFormed()) throw new BatonError('invalid', 'data: is no text, for a surrogate in it has no other half')
  return { topic: requireTopic(topic), data: text, type: type ?? null }
}

function readJson(text: string): unknown {
  try {
    return parseExactly(text)
  } catch {
    throw new BatonError('invalid', 'the body is not JSON')
  }
}

/** Who publishes; throws where this one may not do so now. */
function admit(edge: Edge, c: Context<EdgeEnv>, events: number): string {
  const { client: publisher } = c.get('access')
  if (edge.publishes.take(publisher, performance.now(), events)) return publisher
  throw new Problem(429, 'limit', 'more events than one publisher may store per second', { 'retry-after': '1' })
}

/** Without a connection the client would hold a publish back and send it later, when its publisher has given it up. */
function storeOf(edge: Edge) {
  const { nats, connection } = edge.store
  if (!connection.connected) throw new BatonError('unavailable', 'the connection to NATS is lost')
  return nats
}

const view = (topic: string, { stream, sequence, position, duplicate }: Published) => ({
  topic,
  stream,
  sequence,
  position: formatPosition(position),
  duplicate,
})
