import { formatPosition, type Position } from '@baton/core/position'
import { formatOwn, HEARTBEAT } from '@baton/sse/format'
import type { Closing, EdgeMetrics } from './metrics.ts'
import type { Ring, View } from './ring.ts'
import type { StreamResponse } from './stream-response.ts'

/** What a client takes its entries from: the ring of its feed, or of a replay on the way there. */
export type Source = {
  readonly ring: Ring
  readonly clients: Set<Client>
  /**
   * A client has taken all there is. True when it was moved to where there may be more at once; else it is flushed
   * when there is.
   */
  more(client: Client): boolean
  /** What a client wanted next is gone from the ring: finds it another source. */
  behind(client: Client): void
}

export type ClientOptions = {
  readonly view: View
  readonly bufferBytes: number
  readonly heartbeatMs: number
  /** On the monotonic clock: when it is asked to come back elsewhere. */
  readonly closesAtMs: number
  /** On the monotonic clock: when what it was opened with ends; Infinity = never. */
  readonly expiresAtMs: number
  readonly metrics: EdgeMetrics
  readonly onClosed: (client: Client) => void
}

/**
 * One open stream. It holds no queue, only a place: what it has not taken stays in a ring or in the log until its
 * socket has room, so a slow client costs this process one socket buffer.
 */
export class Client {
  #place: Position
  /** The last position its frames have told it. */
  #told: Position
  #source: Source | null = null
  #number = 0
  #response: StreamResponse | null = null
  #lastWriteMs = performance.now()
  #closed = false
  /** The newest of what is told beside the sequence, while the socket has no room for it. */
  #owed: string | null = null
  readonly #options: ClientOptions

  constructor(place: Position, options: ClientOptions) {
    this.#place = place
    this.#told = place
    this.#options = options
  }

  /** Where it stands: it has everything up to here. */
  get place(): Position {
    return this.#place
  }

  /** What waits in its socket. */
  get pendingBytes(): number {
    return this.#response?.pendingBytes ?? 0
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Gives it the response to write to. */
  begin(response: StreamResponse): void {
    this.#response = response
  }

  /** Lets it take from a source, entry `number` first. */
  attach(source: Source, number: number): void {
    this.#source?.clients.delete(this)
    this.#source = source
    this.#number = number
    source.clients.add(this)
  }

  /** Says something beside the sequence, once its socket has room; by then only the newest of it is worth saying. */
  tell(block: string): void {
    const response = this.#response
    if (response === null || this.#closed) return
    const isFull = response.pendingBytes >= this.#options.bufferBytes
    this.#owed = isFull ? block : null
    if (!isFull) response.say(block)
  }

  /** Writes what is new, as far as its socket has room; the socket's `drain` calls it again. */
  flush(): void {
    const { bufferBytes, view, metrics } = this.#options
    const response = this.#response
    if (response === null) return
    if (this.#owed !== null) this.tell(this.#owed)
    while (!this.#closed && response.pendingBytes < bufferBytes) {
      const source = this.#source
      if (source === null) return
      const batch = source.ring.take(this.#number, view, bufferBytes)
      if (batch === 'behind') {
        source.behind(this)
        continue
      }
      if (batch === null) {
        if (source.more(this)) continue
        return
      }
      this.#number = batch.next
      this.#place = batch.place
      if (batch.bytes !== null) {
        response.write(batch.bytes)
        metrics.wrote(batch.events, batch.bytes.length)
        this.#lastWriteMs = performance.now()
      }
      this.#told = batch.shown ?? this.#told
      if (batch.ends) this.close('end')
    }
  }

  /** Keeps an idle connection alive, tells a position that moved unseen, and ends what is too old. */
  tick(nowMs: number, retryMs: () => number): void {
    const response = this.#response
    if (response === null || this.#closed) return
    if (nowMs >= this.#options.expiresAtMs) return this.bye('token-expired', retryMs())
    if (nowMs >= this.#options.closesAtMs) return this.bye('max-age', retryMs())
    // A socket with something in it needs no heartbeat, and more would pile up in a slow one.
    if (nowMs - this.#lastWriteMs < this.#options.heartbeatMs || response.pendingBytes > 0) return
    this.#lastWriteMs = nowMs
    const id = formatPosition(this.#place)
    const moved = id !== formatPosition(this.#told)
    this.#told = this.#place
    response.say(moved ? formatOwn('stream.position', {}, { id }) : HEARTBEAT)
  }

  /** Asks it to come back, to this edge or another, after a while. Nothing is lost: it keeps its position. */
  bye(reason: Exclude<Closing, 'end' | 'left'>, retryMs: number): void {
    if (this.#closed) return
    this.#response?.say(formatOwn('stream.bye', { reason }, { retryMs }))
    this.close(reason)
  }

  /** Ends the stream; a client that takes nothing loses its connection instead. */
  close(why: Closing): void {
    if (this.#closed) return
    this.#closed = true
    this.#source?.clients.delete(this)
    this.#source = null
    if (why === 'too-slow') this.#response?.destroy()
    else this.#response?.end()
    this.#options.metrics.closed(why)
    this.#options.onClosed(this)
  }
}
