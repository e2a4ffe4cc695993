import { createRoute, z } from '@hono/zod-openapi'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import { END } from '@baton/core/event'
import { isRunId } from '@baton/core/ids'
import { formatOwn, STREAM_HEADERS } from '@baton/sse/format'
import { acceptsStream } from '../accepts.ts'
import type { EdgeEnv } from '../app.ts'
import { readAsked } from '../asked.ts'
import { Client } from '../client.ts'
import type { Edge } from '../edge.ts'
import type { Hold } from '../feeds.ts'
import { findRun, unknownRun } from '../find-run.ts'
import { lostEnd } from '../lost-end.ts'
import { position } from '../mend.ts'
import { OPEN_TIMEOUT_MS, refuse, refusalOf } from '../refuse.ts'
import { Problem } from '../problem.ts'
import { createView } from '../ring.ts'
import { problemSchema, runParams, streamQuery } from '../schemas.ts'
import { settle, type Settled } from '../settle.ts'
import { StreamResponse } from '../stream-response.ts'
import { within } from '../within.ts'

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

/** What a well-formed request for a stream says. */
function readRequest(c: Context<EdgeEnv>) {
  const run = c.req.param('run') ?? ''
  const query = streamQuery.parse(c.req.query())
  if (!acceptsStream(c.req.header('accept'))) {
    throw new Problem(406, 'not_acceptable', 'this is text/event-stream, which the Accept header excludes')
  }
  return {
    run,
    asked: readAsked(c.env.incoming.headers['last-event-id'] as string | undefined, query.lastEventId, query.from),
    format: query.format ?? ('plain' as const),
    types: readTypes(query.types),
  }
}

/** No names at all is no filter: a page that joins an empty list wants everything. */
function readTypes(text: string | undefined): readonly string[] | null {
  const types = (text ?? '').split(',').flatMap((type) => type.trim() || [])
  return types.length === 0 ? null : types
}

type StreamRequest = ReturnType<typeof readRequest>

/** `GET /runs/:run/events`: decides everything before the status line, then hands the socket to a client. */
export const runEvents =
  (edge: Edge) =>
  async (c: Context<EdgeEnv>): Promise<Response> => {
    const request = readRequest(c)
    if (!isRunId(request.run)) throw unknownRun(request.run)
    const refusal = refusalOf(edge, c)
    if (refusal !== null) return refuse(edge, c, refusal)
    edge.opening++
    try {
      return await open(edge, c, request)
    } catch (error) {
      return refuse(edge, c, error)
    } finally {
      edge.opening--
    }
  }

async function open(edge: Edge, c: Context<EdgeEnv>, request: StreamRequest): Promise<Response> {
  const { outgoing } = c.env
  // A request behind another on its connection waits for its turn; only then is it time to look where the run stands.
  const socket = await StreamResponse.socketOf(outgoing)
  const gone = new AbortController()
  outgoing.once('close', () => gone.abort(new BatonError('unavailable', 'the client left')))
  const hold = await edge.store.feeds.hold(request.run)
  let streams = false
  try {
    const settled = await within(OPEN_TIMEOUT_MS, decide(edge, hold, request, gone.signal))
    if (settled.kind === 'over') {
      edge.metrics.opened('over')
      return c.body(null, 204)
    }
    if (c.req.method === 'HEAD' || gone.signal.aborted) return c.body(null, 200, { ...STREAM_HEADERS })
    begin(edge, c, socket, hold, request, settled)
    streams = true
    return RESPONSE_ALREADY_SENT
  } finally {
    if (!streams) hold.release()
  }
}

async function decide(edge: Edge, hold: Hold, request: StreamRequest, signal: AbortSignal): Promise<Settled> {
  const { nats } = edge.store
  const { feed } = hold
  const lost = feed.head === null ? await lostEnd(feed, await findRun(nats, hold)) : null
  return settle(nats, feed, request.asked, lost, signal)
}

/** The head goes out here: nothing after it may throw. */
function begin(
  edge: Edge,
  c: Context<EdgeEnv>,
  socket: Awaited<ReturnType<typeof StreamResponse.socketOf>>,
  hold: Hold,
  request: StreamRequest,
  settled: Settled & { kind: 'at' },
): void {
  const { config, metrics } = edge
  const { place, lostEnd: lost } = settled
  let client: Client | null = null
  const stream = StreamResponse.begin(c.env.outgoing, socket, {
    headers: Object.fromEntries(c.res.headers),
    retryMs: edge.retryMs(),
    block: settled.block,
    stallMs: config.stallMs,
    onStall: () => client?.bye('too-slow', edge.retryMs()),
    onDrain: () => client?.flush(),
    onClose: () => client?.close('left'),
  })
  client = new Client(place, {
    view: createView(request.format, request.types, stream.chunked),
    bufferBytes: config.clientBufferBytes,
    heartbeatMs: config.heartbeatMs,
    closesAtMs: performance.now() + config.maxAgeMs * (2 / 3 + (Math.random() * 2) / 3),
    metrics,
    onClosed: (closed) => {
      edge.clients.delete(closed)
      hold.release()
    },
  })
  edge.clients.add(client)
  metrics.opened(settled.reset === null ? 'open' : 'reset')
  client.begin(stream)
  if (lost !== null) {
    stream.say(formatOwn(END, lost, { id: position(place) }))
    client.close('end')
    return
  }
  hold.feed.join(client)
  client.flush()
}
