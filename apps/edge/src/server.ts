import { createServer, STATUS_CODES, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { listen as listenAt } from '@baton/service/listen'
import { createApp } from './app.ts'
import type { Edge } from './edge.ts'
import { Problem, problemResponse } from './problem.ts'

/** Requests that may wait on one connection behind a stream, which may never end. */
const MAX_PIPELINED = 16
/** Beside the streams, for everything else that is asked here. */
const SPARE_CONNECTIONS = 1000
const WRITE_BUFFER_BYTES = 64 * 1024
/** Load balancers hold idle connections for about a minute; ours must live longer than theirs. */
const KEEP_ALIVE_MS = 75_000

/** The HTTP server of an edge, listening. Port 0 takes a free one. */
export async function listen(edge: Edge, host: string, port: number): Promise<{ server: Server; port: number }> {
  // Its own Request and Response would send a second head for what a stream has answered itself.
  const handle = getRequestListener(createApp(edge).fetch, {
    overrideGlobalObjects: false,
    // HTTP/1.0 needs no Host, and probes of load balancers send none.
    hostname: 'localhost',
    // The app answers for its own failures; what comes here is a request whose target or host makes no URL.
    errorHandler: () =>
      problemResponse(new Problem(400, 'invalid', 'the request target or the Host header is malformed')),
  })
  const requests: OpenRequests = new WeakMap()
  const server = createServer(
    // `drain` comes only from a socket that was full to this mark: it must not lie above what one client may hold.
    {
      highWaterMark: Math.min(WRITE_BUFFER_BYTES, edge.config.clientBufferBytes),
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Node would refuse a request without one by an answer that has no body.
      requireHostHeader: false,
    },
    (request, response) => {
      if (note(requests, request.socket, response) > MAX_PIPELINED) return void request.socket.destroy()
      if (request.headers.host === undefined && request.httpVersion === '1.1') {
        return send(response, 400, 'HTTP/1.1 needs a Host header')
      }
      void handle(request, response)
    },
  )
  server.on('checkExpectation', (_, response: ServerResponse) => {
    send(response, 417, 'nothing but 100-continue can be expected here')
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (socket.writable && hasRoom(requests.get(socket))) socket.write(refusal(error.code))
    socket.destroy()
  })
  const { maxConnections } = edge.config
  if (maxConnections > 0) server.maxConnections = maxConnections + SPARE_CONNECTIONS
  return { server, port: await listenAt(server, host, port, 'BATON_PORT') }
}

/** The whole answer to bytes that make no request, which no handler ever sees. */
function refusal(code: string | undefined): string {
  const [status, detail] =
    code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'the headers are larger than this server reads']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'the request did not come in time']
        : [400, 'this is not an HTTP request']
  const { body, headers } = problemOf(status, detail)
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${body}`
}

/** Answers a request that is refused before the app sees it. */
function send(response: ServerResponse, status: number, detail: string): void {
  const { body, headers } = problemOf(status, detail)
  response.writeHead(status, headers).end(body)
}

function problemOf(status: number, detail: string) {
  const title = STATUS_CODES[status] ?? 'Error'
  const body = JSON.stringify({ type: 'about:blank', title, status, code: 'invalid', detail })
  const headers = {
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  return { body, headers }
}

/** The requests of each connection that have no whole answer yet. */
type OpenRequests = WeakMap<Socket, Set<ServerResponse>>

/** How many there are on its connection, this one included. */
function note(requests: OpenRequests, socket: Socket, response: ServerResponse): number {
  const open = (requests.get(socket) ?? new Set()).add(response)
  requests.set(socket, open)
  response.once('close', () => open.delete(response))
  return open.size
}

/**
 * Is it the body of the only open request that cannot be read, and has nothing been answered yet? An answer written by hand
 * behind one that has begun, or in place of one that a whole request waits for, would be taken for what it is not.
 */
const hasRoom = (open: ReadonlySet<ServerResponse> = new Set()): boolean =>
  open.size < 2 && [...open].every(({ headersSent, req }) => !headersSent && !req.complete)

/** Takes no more connections, waits until those there are have ended, and closes what is left after `limitMs`. */
export async function close(server: Server, limitMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  // A connection becomes idle when its last answer ends, which nobody tells us of.
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const late = setTimeout(() => server.closeAllConnections(), limitMs)
  await closed
  clearInterval(idle)
  clearTimeout(late)
}
