import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { BatonError } from '@baton/core/errors'
import type { Position } from '@baton/core/position'
import { STREAM_HEADERS, type Format } from '@baton/sse/format'
import { lastsMs } from './access/access.ts'
import { acceptsStream } from './accepts.ts'
import type { EdgeEnv } from './app.ts'
import { Client } from './client.ts'
import { neighbourhood } from './client-address.ts'
import type { Edge } from './edge.ts'
import type { Hold } from './feeds.ts'
import { Problem } from './problem.ts'
import { OPEN_TIMEOUT_MS, refuse, refusalOf } from './refuse.ts'
import { createView } from './ring.ts'
import type { Seat } from './status-board.ts'
import type { Event, Scope } from './scope.ts'
import { StreamResponse } from './stream-response.ts'
import { within } from './within.ts'

/** Where a client starts. */
export type Start = {
  /** The place it starts after. */
  readonly place: Position
  /** `stream.open` or `stream.reset`: the first frame, which gives it a position. */
  readonly block: string
  readonly isReset: boolean
  /** It knows that something may be gone before the first that it gets: by the reset, or because it asked for what is kept. */
  readonly told: boolean
  /** What is said right after it, and then nothing more: the end, where the log no longer holds it. Null otherwise. */
  readonly end: string | null
}

export type StreamRequest<T extends Event> = {
  readonly scope: (edge: Edge) => Scope<T>
  readonly format: Format
  readonly types: readonly string[] | null
  /** Decides before the status line; `over`: the client has the end, there is nothing more, ever. */
  readonly decide: (edge: Edge, hold: Hold<T>, signal: AbortSignal) => Promise<Start | 'over'>
  /** A seat among those who are told how it fares, where that was asked for. */
  readonly seat?: (edge: Edge, hold: Hold<T>) => Promise<Seat>
}

/** Throws the 406 for a request that takes no event stream. */
export function requireStream(c: Context<EdgeEnv>): void {
  if (!acceptsStream(c.req.header('accept'))) {
    throw new Problem(406, 'not_acceptable', 'this is text/event-stream, which the Accept header excludes')
  }
}

/** Decides everything before the status line, then hands the socket to a client. */
export async function openStream<T extends Event>(
  edge: Edge,
  c: Context<EdgeEnv>,
  request: StreamRequest<T>,
): Promise<Response> {
  const refusal = refusalOf(edge, c)
  if (refusal !== null) return refuse(edge, c, refusal)
  const leave = edge.connections.enter(neighbourhood(c.get('access').client))
  if (leave === null) return refuse(edge, c, 'limit')
  edge.opening++
  let streams = false
  try {
    const response = await open(edge, c, request, leave)
    streams = response === RESPONSE_ALREADY_SENT
    return response
  } catch (error) {
    return refuse(edge, c, error)
  } finally {
    edge.opening--
    if (!streams) leave()
  }
}

async function open<T extends Event>(
  edge: Edge,
  c: Context<EdgeEnv>,
  request: StreamRequest<T>,
  leave: () => void,
): Promise<Response> {
  const { outgoing } = c.env
  // A request behind another on its connection waits for its turn; only then is it time to look where the log stands.
  const socket = await StreamResponse.socketOf(outgoing)
  const gone = new AbortController()
  outgoing.once('close', () => gone.abort(new BatonError('unavailable', 'the client left')))
  const hold = await edge.store.feeds.hold(request.scope(edge))
  let seat: Seat | null = null
  let streams = false
  try {
    const start = await within(OPEN_TIMEOUT_MS, request.decide(edge, hold, gone.signal))
    if (start === 'over') {
      edge.metrics.opened('over')
      return c.body(null, 204)
    }
    if (c.req.method === 'HEAD' || gone.signal.aborted) return c.body(null, 200, { ...STREAM_HEADERS })
    seat = (await request.seat?.(edge, hold)) ?? null
    if (gone.signal.aborted) return c.body(null, 200, { ...STREAM_HEADERS })
    begin(edge, c, socket, { hold, seat, leave }, request, start)
    streams = true
    return RESPONSE_ALREADY_SENT
  } finally {
    if (!streams) {
      seat?.leave()
      hold.release()
    }
  }
}

/** The head goes out here: nothing after it may throw. */
function begin<T extends Event>(
  edge: Edge,
  c: Context<EdgeEnv>,
  socket: Awaited<ReturnType<typeof StreamResponse.socketOf>>,
  { hold, seat, leave }: { hold: Hold<T>; seat: Seat | null; leave: () => void },
  request: Pick<StreamRequest<T>, 'format' | 'types'>,
  start: Start,
): void {
  const { config, metrics } = edge
  let client: Client | null = null
  const stream = StreamResponse.begin(c.env.outgoing, socket, {
    headers: Object.fromEntries(c.res.headers),
    retryMs: edge.retryMs(),
    block: start.block,
    stallMs: config.stallMs,
    onStall: () => client?.bye('too-slow', edge.retryMs()),
    onDrain: () => client?.flush(),
    onClose: () => client?.close('left'),
  })
  client = new Client(start.place, {
    view: createView(request.format, request.types, stream.chunked),
    bufferBytes: config.clientBufferBytes,
    heartbeatMs: config.heartbeatMs,
    closesAtMs: performance.now() + config.maxAgeMs * (2 / 3 + (Math.random() * 2) / 3),
    expiresAtMs: performance.now() + lastsMs(c.get('access')),
    metrics,
    onClosed: (closed) => {
      edge.clients.delete(closed)
      seat?.leave()
      hold.release()
      leave()
    },
  })
  edge.clients.add(client)
  metrics.opened(start.isReset ? 'reset' : 'open')
  client.begin(stream)
  if (seat !== null) {
    client.tell(seat.block)
    seat.take(client)
  }
  if (start.end !== null) {
    stream.say(start.end)
    client.close('end')
    return
  }
  hold.feed.join(client, start.told)
  client.flush()
}
