import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JobEvent } from '@baton/core/event'
import { FRESH_CURSOR } from '@baton/core/records'
import type { JobSpec } from '@baton/core/run'
import { createLog } from '@baton/service/log'
import { tailJob, type JobOutcome, type TailDeps } from './tail-job.ts'
import { createUpstream, type Upstream } from './upstream.ts'

const closers: (() => unknown)[] = []

/** Closes what the last test opened; for `afterEach`. */
export async function closeAll(): Promise<void> {
  await Promise.all(closers.splice(0).map((close) => close()))
}

/** What one request gets. */
export type Answer = (response: ServerResponse, request: IncomingMessage) => void

export type TestAgent = {
  readonly url: string
  readonly requests: IncomingMessage[]
  /** Open sockets. */
  readonly sockets: () => number
}

/** A real HTTP server that answers its requests one after the other with `answers`, the last one from then on. */
export async function testAgent(...answers: readonly Answer[]): Promise<TestAgent> {
  const requests: IncomingMessage[] = []
  const sockets = new Set<unknown>()
  const server = createServer((request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)]
    requests.push(request)
    response.on('error', () => undefined)
    answer?.(response, request)
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/stream?job=1`, requests, sockets: () => sockets.size }
}

const sse = { 'content-type': 'text/event-stream' }

/** A stream that sends `text` and stays open. */
export const streams =
  (text: string | Buffer): Answer =>
  (response) =>
    void response.writeHead(200, sse).write(text)

/** A stream that sends `text` and ends. */
export const ends =
  (text: string): Answer =>
  (response) =>
    void response.writeHead(200, sse).end(text)

/** A stream that sends `text` and is reset. */
export const breaks =
  (text: string): Answer =>
  (response) =>
    void response.writeHead(200, sse).write(text, () => setImmediate(() => response.socket?.resetAndDestroy()))

export const says =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(status, headers).end(status === 204 || status === 304 ? undefined : 'no\n')

export const DONE = 'event: done\ndata: {}\n\n'

export function testUpstream(options: Partial<Upstream> & { allow?: readonly string[] } = {}): Upstream {
  const { allow = ['127.0.0.0/8'], ...rest } = options
  const upstream = {
    ...createUpstream({ allow, secrets: new Map(), silenceMs: 1_800_000, giveUpMs: 0, maxEventBytes: 1_000_000 }),
    random: () => 0,
    ...rest,
  }
  closers.push(async () => upstream.agent.destroy())
  return upstream
}

export const testSpec = (url: string, over: Partial<JobSpec> = {}): JobSpec => ({
  job: 'main',
  url,
  resume: 'auto',
  headers: {},
  secret: null,
  secretHeader: null,
  cancel: null,
  ...over,
})

export type TestTail = {
  readonly outcome: Promise<JobOutcome>
  readonly stored: JobEvent[]
  /** `state` or `state: reason`, as they were told. */
  readonly states: string[]
  readonly failures: number[]
  readonly stop: AbortController
}

export const silent = createLog('test', 'silent')

/** Tails an agent into an array. */
export function testTail(spec: JobSpec, over: Partial<TailDeps> = {}): TestTail {
  const stop = new AbortController()
  closers.push(() => stop.abort(new Error('the test is over')))
  const [stored, states, failures]: [JobEvent[], string[], number[]] = [[], [], []]
  const deps: TailDeps = {
    spec,
    run: 'r',
    terminalTypes: ['done', 'failed', 'cancelled'],
    cursor: FRESH_CURSOR,
    readKept: () => Promise.reject(new Error('nothing is kept')),
    store: async (event) => void stored.push(event),
    onAlive: () => undefined,
    onState: (state, reason) => states.push(reason === null ? state : `${state}: ${reason}`),
    onFailing: (count) => failures.push(count),
    failingSinceMs: null,
    doubtfulSinceMs: null,
    upstream: over.upstream ?? testUpstream(),
    log: silent,
    ...over,
  }
  const outcome = tailJob(deps, stop.signal)
  outcome.catch(() => undefined)
  return { outcome, stored, states, failures, stop }
}
