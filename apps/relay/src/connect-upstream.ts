import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { isCode } from '@baton/core/errors'
import type { JobSpec } from '@baton/core/run'
import { errors, type Dispatcher } from 'undici'
import { decodeBody } from './decode-body.ts'
import { jobHeaders, type RequestHeaders, type Upstream } from './upstream.ts'

/** What an agent's answer means for its job. `reason` is for people and holds no secret. */
export type Answer =
  | { readonly kind: 'stream'; readonly body: Readable }
  /** Nothing more will come: the job is completed. */
  | { readonly kind: 'over'; readonly reason: string }
  /** Final: trying again cannot help. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** Try again. `doubtful` answers are final when they go on for long: deploys give them for a while. */
  | {
      readonly kind: 'failed'
      readonly reason: string
      readonly doubtful: boolean
      readonly retryAfterMs: number | null
    }

const MAX_REDIRECTS = 5
const redirects = new Set([301, 302, 303, 307, 308])

type Options = { readonly spec: JobSpec; readonly upstream: Upstream; readonly lastEventId: string | null }

/**
 * One attempt to open a job's stream, redirects included. It never throws but when the signal aborts, with its reason.
 * The signal also ends the body: use one for each attempt, and abort it when done with the body.
 */
export async function connectUpstream(options: Options, signal: AbortSignal): Promise<Answer> {
  const { spec, upstream, lastEventId } = options
  const own = jobHeaders(spec, upstream.secrets)
  if (own === null) return failed(`this relay has no secret named ${spec.secret}`)
  const headers: RequestHeaders = {
    ...own,
    accept: 'text/event-stream',
    'accept-encoding': 'identity',
    'cache-control': 'no-cache',
  }
  delete headers['last-event-id']
  if (lastEventId !== null) headers['last-event-id'] = headerValue(lastEventId)
  let url = new URL(spec.url)
  for (let hops = 0; ; hops++) {
    const response = await get(url, headers, upstream, signal)
    if ('kind' in response) return response
    if (!redirects.has(response.statusCode)) return judge(response)
    drop(response.body)
    const next = redirectTarget(response, url)
    if (typeof next === 'string') return { kind: 'refused', reason: next }
    if (hops === MAX_REDIRECTS) return { kind: 'refused', reason: `more than ${MAX_REDIRECTS} redirects` }
    url = next
  }
}

/** The id as UTF-8 in a header, whose characters undici writes as bytes. */
const headerValue = (id: string): string => Buffer.from(id, 'utf8').toString('latin1')

/** Can this id be sent at all? Control characters cannot stand in a header, and edge blanks do not survive it. */
export const isSendable = (id: string): boolean =>
  id !== '' && id.trim() === id && !/[^\t\P{Cc}\u0080-\u009f]/u.test(id)

async function get(
  url: URL,
  headers: RequestHeaders,
  { agent }: Upstream,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData | Answer> {
  try {
    const path = `${url.pathname}${url.search}`
    return await agent.request({ origin: url.origin, path, method: 'GET', headers, signal })
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof errors.InvalidArgumentError)
      return { kind: 'refused', reason: `not a request: ${error.message}` }
    if (isCode(error, 'denied')) return failed(error.message, { doubtful: true })
    return failed(`no connection: ${errorName(error)}`)
  }
}

const failed = (reason: string, more: { doubtful?: boolean; retryAfterMs?: number | null } = {}): Answer => ({
  kind: 'failed',
  reason,
  doubtful: more.doubtful ?? false,
  retryAfterMs: more.retryAfterMs ?? null,
})

/** The code of a network error, never its text: that may hold addresses and paths. */
export function errorName(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  const { code, cause } = error as NodeJS.ErrnoException
  if (typeof code === 'string') return code
  if (error instanceof AggregateError && error.errors.length > 0) return errorName(error.errors[0])
  return cause instanceof Error ? errorName(cause) : error.name
}

/** A body nobody reads: its socket goes with it, and what its end says is nobody's business. */
function drop(body: Readable): void {
  body.on('error', () => undefined)
  body.destroy()
}

/** An agent may send any header more than once, and then undici gives all of them. */
const firstOf = (header: string | string[] | undefined): string | undefined =>
  Array.isArray(header) ? header[0] : header

function redirectTarget({ headers, statusCode }: Dispatcher.ResponseData, from: URL): URL | string {
  const text = firstOf(headers['location'])
  if (text === undefined || text.trim() === '' || !URL.canParse(text, from)) {
    return `answered ${statusCode} without a usable Location`
  }
  const target = new URL(text, from)
  return target.origin === from.origin ? target : `redirected to another origin: ${target.origin}`
}

function judge(response: Dispatcher.ResponseData): Answer {
  const { statusCode: status, headers, body } = response
  if (status === 200) return stream(headers, body)
  drop(body)
  const reason = `answered ${status}`
  const more = { retryAfterMs: retryAfterMs(headers['retry-after'], Date.now()) }
  if (status === 204 || status === 410) return { kind: 'over', reason }
  if (status === 401 || status === 403 || status === 404) return failed(reason, { doubtful: true, ...more })
  if (status === 408 || status === 425 || status === 429 || (status >= 500 && status < 600)) return failed(reason, more)
  return { kind: 'refused', reason }
}

function stream(headers: IncomingHttpHeaders, body: Readable): Answer {
  const type = firstOf(headers['content-type'])?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type !== 'text/event-stream') {
    drop(body)
    return failed(`answered 200 with ${type === '' ? 'no content type' : `type ${type.slice(0, 100)}`}`, {
      doubtful: true,
    })
  }
  const encoding = firstOf(headers['content-encoding'])
  const decoded = decodeBody(body, encoding)
  if (decoded !== null) return { kind: 'stream', body: decoded }
  drop(body)
  return failed(`answered with an unknown content encoding: ${encoding?.slice(0, 100)}`, { doubtful: true })
}

/** `Retry-After` in ms from now: seconds or an HTTP date. Null where it says neither. */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | null {
  const text = firstOf(header)?.trim()
  if (text === undefined || text === '') return null
  if (/^\d+$/.test(text)) return Number(text) * 1000
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}
