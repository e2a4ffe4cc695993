import { request, type IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { StrictSse, type Frame } from './strict-sse.ts'
import { eventually } from './eventually.ts'

/** A frame with when it came and on which connection (from 1) of its client. */
export type Received = Frame & { readonly atMs: number; readonly connection: number }

export type Opening = {
  readonly connection: number
  readonly url: string
  readonly lastEventId: string | null
  /** Null when there was no answer at all. */
  readonly status: number | null
  readonly atMs: number
}

export type SseClientOptions = {
  /** Where to go, one after another, a step on after each loss: edges need no sticky sessions. */
  readonly urls: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly lastEventId?: string
  /** The address it comes from: one of 127.0.0.0/8, for a limit that counts by it. */
  readonly localAddress?: string
  /** A slow client: after so many frames it reads nothing for so long. */
  readonly stall?: { readonly everyFrames: number; readonly ms: number }
  /** Does it come back after the response ends? Default true. */
  readonly reconnects?: boolean
  /** It hangs up after so long without a byte, and comes back: more than an edge's heartbeat. Default: never. */
  readonly idleMs?: number
  /** What it asks with: Node's own HTTP, or `fetch`. Default `http`. */
  readonly via?: 'http' | 'fetch'
}

type Asked = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly localAddress: string | undefined
}

/** A response, however it was asked for. */
type Answer = { readonly status: number; readonly body: AsyncIterable<Uint8Array>; readonly hangUp: () => void }

/**
 * A client of an edge that keeps its Last-Event-ID and comes back, as EventSource does, and records every frame.
 * It stops at a 204, at any status that ends an EventSource, and at the first breach of the format.
 */
export class SseClient {
  readonly frames: Received[] = []
  readonly openings: Opening[] = []
  lastEventId: string | null
  /** A breach of the format, if there was one. */
  breach: Error | null = null
  readonly #options: SseClientOptions
  readonly #over = new AbortController()
  #retryMs = 100
  #isEnded = false
  /** Ends the connection there is. */
  #hangUp: () => void = () => undefined
  readonly done: Promise<void>

  constructor(options: SseClientOptions) {
    this.#options = options
    this.lastEventId = options.lastEventId ?? null
    this.done = this.#run().catch((error: unknown) => {
      if (!this.#over.signal.aborted) this.breach = error as Error
    })
  }

  async #run(): Promise<void> {
    for (let connection = 1; !this.#over.signal.aborted; connection++) {
      const { urls, reconnects = true } = this.#options
      const url = urls[(connection - 1) % urls.length] ?? ''
      const status = await this.#follow(url, connection)
      if (!reconnects || (status !== null && status !== 200)) return
      // A client that waited as long as it is told would make every test slow; half of it still spreads.
      await delay(Math.min(this.#retryMs / 2, 500), undefined, { signal: this.#over.signal })
    }
  }

  /** One connection, to its end. Answers the status, null when it failed before there was one. */
  async #follow(url: string, connection: number): Promise<number | null> {
    const opening = { connection, url, lastEventId: this.lastEventId, atMs: Date.now() }
    const { headers = {}, localAddress, via = 'http', stall, idleMs } = this.#options
    const ask = via === 'http' ? askByHttp : askByFetch
    const asked = { url, headers: headersOf(this.lastEventId, headers), localAddress }
    // From the asking on: an answer may never come, either.
    const impatient = new AbortController()
    const idle = idleMs === undefined ? null : setTimeout(() => impatient.abort(), idleMs)
    const answer = await ask(asked, AbortSignal.any([this.#over.signal, impatient.signal])).catch(() => null)
    const status = answer?.status ?? null
    this.openings.push({ ...opening, status })
    if (answer === null || status !== 200) {
      if (idle !== null) clearTimeout(idle)
      answer?.hangUp()
      return status
    }
    this.#hangUp = answer.hangUp
    const parser = new StrictSse()
    let stallAt = this.frames.length + (stall?.everyFrames ?? 0)
    try {
      for await (const chunk of answer.body) {
        idle?.refresh()
        for (const frame of parser.push(chunk)) this.#take(frame, connection)
        if (stall !== undefined && this.frames.length >= stallAt) {
          stallAt = this.frames.length + stall.everyFrames
          await delay(stall.ms, undefined, { signal: this.#over.signal })
          idle?.refresh()
        }
      }
    } catch (error) {
      // A cut connection is the ordinary case here; anything the parser says is not.
      if (!isCut(error)) throw error
      return status
    } finally {
      if (idle !== null) clearTimeout(idle)
    }
    if (parser.unfinished !== '') throw new Error(`the response ended within a frame: ${parser.unfinished}`)
    return status
  }

  #take(frame: Frame, connection: number): void {
    if (frame.retryMs !== null) this.#retryMs = frame.retryMs
    if (frame.id !== null) this.lastEventId = frame.id
    if (frame.event === 'stream.end') this.#isEnded = true
    this.frames.push({ ...frame, atMs: Date.now(), connection })
  }

  /** The frames of the log: what the run emitted, gaps and the end. */
  get events(): readonly Received[] {
    return this.frames.filter(isLogged)
  }

  get ended(): boolean {
    return this.#isEnded
  }

  /** Waits until a frame fits, and answers the first that does. */
  async until(what: string, fits: (frame: Received) => boolean, withinMs?: number): Promise<Received> {
    return eventually(
      `a client at ${this.#options.urls.join(' or ')} gets ${what}`,
      () => {
        if (this.breach !== null) throw this.breach
        const found = this.frames.find(fits)
        if (found !== undefined) return found
        const last = this.frames.at(-1)
        const ago = last === undefined ? '' : ` (${Date.now() - last.atMs} ms ago)`
        throw new Error(`${this.frames.length} frames, the last: ${JSON.stringify(last)}${ago}`)
      },
      withinMs === undefined ? {} : { withinMs },
    )
  }

  async untilEvents(count: number, withinMs?: number): Promise<void> {
    await eventually(
      `a client at ${this.#options.urls.join(' or ')} gets ${count} events`,
      () => {
        if (this.breach !== null) throw this.breach
        const had = this.events.length
        if (had < count) throw new Error(`it has ${had}; openings: ${JSON.stringify(this.openings.slice(-3))}`)
        return true
      },
      withinMs === undefined ? {} : { withinMs },
    )
  }

  /** Loses its connection, and comes back. */
  drop(): void {
    this.#hangUp()
  }

  async close(): Promise<void> {
    this.#over.abort(new Error('the client was closed'))
    await this.done
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

const unlogged = new Set([
  'stream.open',
  'stream.position',
  'stream.reset',
  'stream.busy',
  'stream.status',
  'stream.bye',
])

/** Is this a frame of something stored? Heartbeats have no data. */
export const isLogged = (frame: Frame): boolean => frame.data !== null && !unlogged.has(frame.event ?? '')

/** The index in a frame's id. */
export const indexOf = (frame: Frame): number => Number(frame.id?.split('-')[1])

const headersOf = (lastEventId: string | null, own: Readonly<Record<string, string>>): Record<string, string> => ({
  accept: 'text/event-stream',
  ...own,
  ...(lastEventId === null ? {} : { 'last-event-id': lastEventId }),
})

/** Was it the connection that failed, and not what came over it? `fetch` puts the socket's error into a cause. */
const isCut = (error: unknown): boolean =>
  error instanceof Error &&
  ((error as NodeJS.ErrnoException).code !== undefined || error.name === 'AbortError' || error.message === 'terminated')

async function askByHttp({ url, ...options }: Asked, signal: AbortSignal): Promise<Answer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { ...options, agent: false, signal })
      .once('response', resolve)
      .once('error', reject)
      .end()
  })
  const hangUp = () => void response.destroy(Object.assign(new Error('hung up'), { code: 'ECONNRESET' }))
  return { status: response.statusCode ?? 0, body: response as AsyncIterable<Buffer>, hangUp }
}

async function askByFetch({ url, headers }: Asked, signal: AbortSignal): Promise<Answer> {
  const own = new AbortController()
  const response = await fetch(url, { headers, signal: AbortSignal.any([signal, own.signal]) })
  return { status: response.status, body: response.body ?? new ReadableStream(), hangUp: () => own.abort() }
}
