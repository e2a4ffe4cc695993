import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { BatonError } from '@baton/core/errors'
import { opening, STREAM_HEADERS, toChunk } from '@baton/sse/format'

/**
 * An open stream to one client. After the head, bytes go straight to the socket: the chunks are framed already, and
 * Node would frame each one anew for every client.
 */
export class StreamResponse {
  readonly #response: ServerResponse
  readonly #socket: Socket
  #over = false

  private constructor(response: ServerResponse, socket: Socket) {
    this.#response = response
    this.#socket = socket
  }

  /**
   * A request that came behind another one on its connection has a socket only when that one is answered. Throws
   * `unavailable` where the client has left already: nothing more would be heard of that.
   */
  static async socketOf(response: ServerResponse): Promise<Socket> {
    if (response.destroyed) throw new BatonError('unavailable', 'the client left while it was decided who it is')
    if (response.socket !== null) return response.socket
    return new Promise((resolve, reject) => {
      const settle = () => {
        response.off('socket', settle)
        response.off('close', settle)
        if (response.socket !== null && !response.destroyed) resolve(response.socket)
        else reject(new BatonError('unavailable', 'the client left before its turn'))
      }
      response.once('socket', settle)
      response.once('close', settle)
    })
  }

  /**
   * Sends the head and the first block, which belongs together with the opening lines. `stallMs`: how long the socket
   * may take no byte before `onStall`. Nothing may throw from here on: the head is out.
   */
  static begin(
    response: ServerResponse,
    socket: Socket,
    options: {
      headers: Readonly<Record<string, string>>
      retryMs: number
      block: string
      stallMs: number
      onStall: () => void
      onDrain: () => void
      onClose: () => void
    },
  ): StreamResponse {
    const stream = new StreamResponse(response, socket)
    response.on('error', () => undefined)
    response.once('close', () => {
      stream.#over = true
      socket.off('drain', options.onDrain)
      options.onClose()
    })
    socket.on('drain', options.onDrain)
    // Node moves this timer on with every byte the kernel takes; a socket that merely has nothing to send fires it too.
    response.setTimeout(options.stallMs, () => {
      if (stream.pendingBytes === 0) return
      // One that has been ended already, but does not take the end, has nothing more to be told.
      if (stream.#over) stream.destroy()
      else options.onStall()
    })
    socket.setNoDelay(true)
    socket.cork()
    response.writeHead(200, { ...options.headers, ...STREAM_HEADERS })
    response.flushHeaders()
    stream.say(opening(options.retryMs) + options.block)
    socket.uncork()
    return stream
  }

  /** False for HTTP/1.0: it gets the blocks as they are, and the end of the connection as the end. */
  get chunked(): boolean {
    return this.#response.chunkedEncoding
  }

  /** What waits in this process for the socket to take it. */
  get pendingBytes(): number {
    return this.#socket.writableLength
  }

  get over(): boolean {
    return this.#over
  }

  /** Writes bytes that are framed as this response needs them. */
  write(bytes: Buffer): void {
    if (!this.#over && !this.#socket.destroyed) this.#socket.write(bytes)
  }

  /** Writes a block of Baton's own. */
  say(block: string): void {
    this.write(this.chunked ? toChunk(block) : Buffer.from(block))
  }

  /** Ends the response after what was written; nothing more can be. */
  end(): void {
    if (this.#over) return
    this.#over = true
    this.#response.end()
  }

  /** Closes the connection at once. */
  destroy(): void {
    this.#over = true
    this.#socket.destroy()
  }
}
