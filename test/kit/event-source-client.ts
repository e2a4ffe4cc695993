import { EventSource } from 'eventsource'
import type { Opening, Received } from './sse-client.ts'

/** Every name a scripted agent, a topic's follower or an edge gives an event: an EventSource hears only what it is told of. */
const NAMES = ['message', 'output', 'progress', 'tool_result', 'assistant', 'done']
const OWN = ['open', 'reset', 'busy', 'position', 'gap', 'end', 'bye'].map((name) => `stream.${name}`)

/**
 * The `eventsource` package as a page would use it: it comes back by itself, and stops for good at anything but 200.
 * What it does not show (`retry:`, comments, statuses) is asked of its `fetch`.
 */
export class EventSourceClient {
  readonly frames: Received[] = []
  readonly openings: Opening[] = []
  readonly breach = null
  readonly #source: EventSource
  #isEnded = false

  /** Without `idleMs` it would wait for ever on a connection whose other end is gone: an EventSource has no watch on that. */
  constructor(options: { readonly url: string; readonly idleMs: number }) {
    this.#source = new EventSource(options.url, {
      fetch: async (url, init) => {
        const connection = this.openings.length + 1
        const lastEventId = new Headers(init.headers).get('last-event-id')
        const opening = { connection, url: String(url), lastEventId, atMs: Date.now() }
        this.openings.push({ ...opening, status: null })
        const response = await askWithin(options.idleMs, String(url), init)
        this.openings[connection - 1] = { ...opening, status: response.status }
        return watched(response, options.idleMs)
      },
    })
    for (const name of [...NAMES, ...OWN]) this.#source.addEventListener(name, (event) => this.#take(name, event))
  }

  #take(name: string, event: { lastEventId: string; data: unknown }): void {
    if (name === 'stream.end') this.#isEnded = true
    this.frames.push({
      id: event.lastEventId,
      event: name === 'message' ? null : name,
      data: String(event.data),
      retryMs: null,
      comments: [],
      atMs: Date.now(),
      connection: this.openings.length,
    })
  }

  get ended(): boolean {
    return this.#isEnded
  }

  /** Has it given up for good, as it does at 204, and at anything an edge must not say? */
  get closed(): boolean {
    return this.#source.readyState === EventSource.CLOSED
  }

  async close(): Promise<void> {
    this.#source.close()
  }
}

/** An answer may never come, either. The package takes an abort for its own, and a network error for a reason to come back. */
async function askWithin(ms: number, url: string, init: RequestInit): Promise<Response> {
  const impatient = new AbortController()
  const timer = setTimeout(() => impatient.abort(), ms)
  const signals = [impatient.signal, ...(init.signal === null || init.signal === undefined ? [] : [init.signal])]
  try {
    return await fetch(url, { ...init, signal: AbortSignal.any(signals) })
  } catch (error) {
    throw impatient.signal.aborted ? new TypeError('no answer', { cause: error }) : error
  } finally {
    clearTimeout(timer)
  }
}

/** A response that fails when no byte comes for so long: what a page's own timer would do. */
function watched(response: Response, idleMs: number): Response {
  if (response.body === null || response.status !== 200) return response
  let timer: NodeJS.Timeout | undefined
  const through = new TransformStream<Uint8Array, Uint8Array>({
    start(controller) {
      timer = setTimeout(() => controller.error(new Error('idle')), idleMs)
    },
    transform(chunk, controller) {
      timer?.refresh()
      controller.enqueue(chunk)
    },
    flush: () => clearTimeout(timer),
  })
  void response.body.pipeTo(through.writable).catch(() => clearTimeout(timer))
  return new Response(through.readable, response)
}
