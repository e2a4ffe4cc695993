import { createServer, connect, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

type Direction = 'up' | 'down'

type Pair = { readonly client: Socket; readonly upstream: Socket }

/**
 * A TCP proxy on a port of its own, between two of our processes. `up` is towards the target. It can stall a
 * direction (bytes wait, the sender feels back-pressure), delay it, cut every connection, refuse new ones, and call
 * a function with what passes upwards, so that a test can act at an exact moment.
 */
export class Proxy {
  readonly #server: Server
  readonly #pairs = new Set<Pair>()
  readonly #stalled: Record<Direction, Promise<void> | null> = { up: null, down: null }
  readonly #release: Record<Direction, () => void> = { up: () => undefined, down: () => undefined }
  delayMs = 0
  refuses = false
  /** Bytes handed on at a time; 0 = as they come. */
  sliceBytes = 0
  /** Called with what was just handed on to the target. */
  onForwarded: ((bytes: Buffer) => void) | null = null
  connections = 0

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(target: { port: number; host?: string }): Promise<Proxy> {
    const server = createServer()
    const proxy = new Proxy(server)
    server.on('connection', (client) => proxy.#join(client, target))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get port(): number {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    return address.port
  }

  #join(client: Socket, target: { port: number; host?: string }): void {
    if (this.refuses) return void client.resetAndDestroy()
    this.connections++
    const upstream = connect({ port: target.port, host: target.host ?? '127.0.0.1', noDelay: true })
    client.setNoDelay(true)
    const pair = { client, upstream }
    this.#pairs.add(pair)
    const close = () => {
      this.#pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', close).on('close', close)
    void this.#pump(client, upstream, 'up').then(close, close)
    void this.#pump(upstream, client, 'down').then(close, close)
  }

  async #pump(from: Socket, to: Socket, direction: Direction): Promise<void> {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      if (this.delayMs > 0) await delay(this.delayMs)
      const size = this.sliceBytes > 0 ? this.sliceBytes : chunk.length
      for (let at = 0; at < chunk.length; at += size) {
        while (this.#stalled[direction] !== null) await this.#stalled[direction]
        const piece = chunk.subarray(at, at + size)
        if (!to.write(piece)) await new Promise((resolve) => to.once('drain', resolve).once('close', resolve))
        if (direction === 'up') this.onForwarded?.(piece)
      }
    }
  }

  /** From now on nothing passes in this direction; the connections stay. */
  stall(direction: Direction): void {
    this.#stalled[direction] ??= new Promise((resolve) => {
      this.#release[direction] = resolve
    })
  }

  flow(direction: Direction): void {
    this.#stalled[direction] = null
    this.#release[direction]()
  }

  /** Resets every connection; new ones are taken unless `refuses` is set. */
  cut(): void {
    for (const { client, upstream } of this.#pairs) {
      client.resetAndDestroy()
      upstream.resetAndDestroy()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.flow('up')
    this.flow('down')
    this.refuses = true
    for (const { client, upstream } of this.#pairs) {
      client.destroy()
      upstream.destroy()
    }
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
