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
}

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
    const response = await open(url, this.lastEventId, this.#options, this.#over.signal).catch(() => null)
    const status = response?.statusCode ?? null
    this.openings.push({ ...opening, status })
    if (response === null || status !== 200) {
      response?.destroy()
      return status
    }
    this.#hangUp = () => response.destroy(Object.assign(new Error('hung up'), { code: 'ECONNRESET' }))
    const parser = new StrictSse()
    let stallAt = this.frames.length + (this.#options.stall?.everyFrames ?? 0)
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        for (const frame of parser.push(chunk)) this.#take(frame, connection)
        const { stall } = this.#options
        if (stall !== undefined && this.frames.length >= stallAt) {
          stallAt = this.frames.length + stall.everyFrames
          await delay(stall.ms, undefined, { signal: this.#over.signal })
        }
      }
    } catch (error) {
      // A cut connection is the ordinary case here; anything the parser says is not.
      if ((error as NodeJS.ErrnoException).code === undefined) throw error
      return status
    }
    if (parser.unfinished !== '') throw new Error(`the response ended within a frame: ${parser.unfinished}`)
    return status
  }

  #take(frame: Frame, connection: number): void {
    if (frame.retryMs !== null) this.#retryMs = frame.retryMs
    if (frame.id !== null) this.lastEventId = frame.id
    this.frames.push({ ...frame, atMs: Date.now(), connection })
  }

  /** The frames of the log: what the run emitted, gaps and the end. */
  get events(): readonly Received[] {
    return this.frames.filter(isLogged)
  }

  get ended(): boolean {
    return this.frames.some((frame) => frame.event === 'stream.end')
  }

  /** Waits until a frame fits, and answers the first that does. */
  async until(what: string, fits: (frame: Received) => boolean, withinMs?: number): Promise<Received> {
    return eventually(
      `a client at ${this.#options.urls.join(' or ')} gets ${what}`,
      () => {
        if (this.breach !== null) throw this.breach
        const found = this.frames.find(fits)
        if (found === undefined)
          throw new Error(`${this.frames.length} frames, the last: ${JSON.stringify(this.frames.at(-1))}`)
        return found
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

async function open(
  url: string,
  lastEventId: string | null,
  { headers = {}, localAddress }: Pick<SseClientOptions, 'headers' | 'localAddress'>,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asking = request(url, {
      agent: false,
      signal,
      localAddress,
      headers: {
        accept: 'text/event-stream',
        ...headers,
        ...(lastEventId === null ? {} : { 'last-event-id': lastEventId }),
      },
    })
    asking.once('response', resolve).once('error', reject).end()
  })
}
