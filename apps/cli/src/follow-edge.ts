import { backoffMs } from '@baton/core/backoff'
import { pause } from '@baton/service/sleep'
import { createSseParser, type SseItem } from '@baton/sse/parse'
import { authorization, causeOf, isMistake, problemOf, refusal, type Edges } from './edge-options.ts'
import { CommandError } from './exit.ts'
import { visible, type Print } from './print.ts'

export type FollowOptions = {
  /** What is followed: a route of an edge, and what a person calls it. */
  readonly path: string
  readonly query: Readonly<Record<string, string | readonly string[] | null>>
  readonly what: string
  /** Tried in turn: any of them can go on where another stopped. */
  readonly edges: Edges
  readonly lastEventId: string | null
  /** Hears, once for each row of them, that an edge failed; the next is tried anyway. */
  readonly onTrouble: (text: string) => void
}

type Frame = SseItem & { kind: 'event' }

/** What the connection's end means for the next. */
type Follow =
  | { readonly kind: 'over'; readonly reason: string | null }
  | { readonly kind: 'again'; readonly waitMs: number; readonly trouble: string | null }

const MAX_FRAME_BYTES = 16 * 2 ** 20
const FIRST_RETRY_MS = 250
const MAX_RETRY_MS = 5000
/** Longer than any heartbeat of an edge: a connection that is silent for so long is dead. */
const SILENCE_MS = 60_000

/**
 * Prints the events of a run or of topics until the end, coming back to any edge with the id of the last event printed.
 * Resolves with the reason of the end; null when the run had ended before that id, or the signal aborted.
 */
export async function followEdge(options: FollowOptions, print: Print, signal: AbortSignal): Promise<string | null> {
  const place = { lastEventId: options.lastEventId }
  for (let attempt = 0, failures = 0; !signal.aborted; attempt++) {
    const edge = options.edges.urls[attempt % options.edges.urls.length] ?? ''
    const before = place.lastEventId
    const next = await followOnce(edge, options, place, print, signal)
    if (next.kind === 'over') return next.reason
    // The answer broke off because nobody wants it any more.
    if (signal.aborted) return null
    failures = place.lastEventId === before ? failures + 1 : 0
    if (failures === 1 && next.trouble !== null) options.onTrouble(`${edge}: ${next.trouble}; trying again …`)
    const limits = { baseMs: FIRST_RETRY_MS, ceilingMs: MAX_RETRY_MS, floorMs: next.waitMs }
    await pause(backoffMs(failures, Math.random(), limits), signal)
  }
  return null
}

async function followOnce(
  edge: string,
  options: FollowOptions,
  place: { lastEventId: string | null },
  print: Print,
  signal: AbortSignal,
): Promise<Follow> {
  const silent = new AbortController()
  const timer = setTimeout(() => silent.abort(new Error('silence')), SILENCE_MS)
  try {
    const response = await fetch(urlOf(edge, options, place.lastEventId), {
      headers: {
        accept: 'text/event-stream',
        'baton-client': 'cli',
        ...authorization(options.edges),
        ...(place.lastEventId === null ? {} : { 'last-event-id': place.lastEventId }),
      },
      signal: AbortSignal.any([signal, silent.signal]),
    })
    const refused = await judge(response, options.what)
    if (refused !== null) return refused
    const parser = createSseParser({ maxEventBytes: MAX_FRAME_BYTES })
    let waitMs = 0
    for await (const bytes of response.body ?? []) {
      timer.refresh()
      for (const item of parser.push(bytes)) {
        if (item.kind === 'retry') waitMs = item.ms
        if (item.kind !== 'event') continue
        if (item.id !== null) place.lastEventId = item.id
        const end = show(item, print)
        if (end !== null) return { kind: 'over', reason: end }
      }
    }
    return { kind: 'again', waitMs, trouble: null }
  } catch (error) {
    if (error instanceof CommandError || isMistake(error)) throw error
    // Refused, cut off or silent: the run goes on, and so does this, elsewhere.
    return { kind: 'again', waitMs: 0, trouble: causeOf(error) }
  } finally {
    clearTimeout(timer)
  }
}

function urlOf(edge: string, { path, query }: FollowOptions, lastEventId: string | null): URL {
  const url = new URL(path, edge)
  url.searchParams.set('format', 'envelope')
  for (const [name, value] of Object.entries(query)) {
    // The id says more exactly where to go on.
    if (value === null || (name === 'from' && lastEventId !== null)) continue
    for (const one of [value].flat()) url.searchParams.append(name, one)
  }
  return url
}

/** Null for an answer that is a stream. */
async function judge(response: Response, what: string): Promise<Follow | null> {
  if (response.status === 200) return null
  if (response.status === 204) return { kind: 'over', reason: null }
  const text = await problemOf(response)
  if (response.status === 404) throw new CommandError('unknown', `there is no ${what}`)
  const refused = refusal(response.status, text)
  if (refused !== null) throw refused
  return { kind: 'again', waitMs: 1000 * (Number(response.headers.get('retry-after')) || 1), trouble: text }
}

/** Prints a frame; the reason of the end where it says that the run is over. */
function show(frame: Frame, print: Print): string | null {
  if (frame.name?.startsWith('stream.') === true) {
    print.result(
      { event: frame.name, id: frame.id, data: parse(frame.data) },
      visible(`-- ${frame.name} ${frame.data}`),
    )
    return frame.name === 'stream.end' ? String((parse(frame.data) as { reason?: unknown } | null)?.reason) : null
  }
  const event = parse(frame.data) as { index?: number; topic?: string; type?: string; data?: string } | null
  const place = event?.topic ?? String(event?.index ?? '').padStart(6)
  const text = visible(`${place}  ${event?.type ?? ''}  ${event?.data ?? frame.data}`)
  print.result({ position: frame.id, ...event }, text)
  return null
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
