import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Bytes of one direction that may wait here before their sender is no longer read. */
const MAX_WAITING_BYTES = 4 * 2 ** 20

/** One direction of one connection: bytes on their way, which can be held. */
class Lane {
  readonly #from: Socket
  readonly #to: Socket
  readonly #proxy: { readonly delayMs: number; readonly sliceBytes: number }
  #waiting: { readonly bytes: Buffer; readonly atMs: number }[] = []
  #isHeld = false
  #wake = Promise.withResolvers<void>()
  #isOver = false

  constructor(from: Socket, to: Socket, proxy: { readonly delayMs: number; readonly sliceBytes: number }) {
    this.#from = from
    this.#to = to
    this.#proxy = proxy
    from.on('data', (bytes: Buffer) => {
      this.#waiting.push({ bytes, atMs: performance.now() })
      if (this.waitingBytes > MAX_WAITING_BYTES) from.pause()
      this.#wake.resolve()
    })
  }

  get waitingBytes(): number {
    return this.#waiting.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  get waiting(): Buffer {
    return Buffer.concat(this.#waiting.map(({ bytes }) => bytes))
  }

  hold(): void {
    this.#isHeld = true
  }

  flow(): void {
    this.#isHeld = false
    this.#wake.resolve()
  }

  end(): void {
    this.#isOver = true
    this.#wake.resolve()
  }

  /** Hands bytes on until nothing more comes and nothing waits. */
  async run(): Promise<void> {
    while (!this.#to.destroyed) {
      const chunk = this.#isHeld ? undefined : this.#waiting[0]
      if (chunk === undefined) {
        if (this.#isOver && !this.#isHeld) return
        await this.#wake.promise
        this.#wake = Promise.withResolvers<void>()
        continue
      }
      // Each byte is late by as much; a row of them is not late by as much as they are many.
      const lateMs = chunk.atMs + this.#proxy.delayMs - performance.now()
      if (this.#proxy.delayMs > 0 && lateMs > 0) await delay(lateMs)
      await this.#write(chunk.bytes)
      this.#waiting.shift()
      if (this.#from.isPaused() && this.waitingBytes <= MAX_WAITING_BYTES) this.#from.resume()
    }
  }

  async #write(chunk: Buffer): Promise<void> {
    const size = this.#proxy.sliceBytes > 0 ? this.#proxy.sliceBytes : chunk.length
    for (let at = 0; at < chunk.length; at += size) {
      if (this.#to.write(chunk.subarray(at, at + size))) continue
      await new Promise((resolve) => this.#to.once('drain', resolve).once('close', resolve))
    }
  }
}

type Held = { readonly waiting: () => Buffer; readonly cutClients: () => void; readonly flow: () => void }

type Pair = { readonly client: Socket; readonly target: Socket; readonly up: Lane; readonly down: Lane }

/**
 * A TCP proxy on a port of its own, between two of our processes; `up` is towards the target. Its connections can be
 * held (bytes wait), cut, delayed and sliced, and new ones refused. Bytes held on a connection whose client has gone
 * meanwhile still reach the target when it flows again: a network that delivers late.
 */
export class Proxy {
  readonly #server: Server
  readonly #pairs = new Set<Pair>()
  delayMs = 0
  refuses = false
  /** Bytes handed on at a time; 0 = as they come. */
  sliceBytes = 0
  /** How many connections there have been. */
  connections = 0

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(target: { port: number }): Promise<Proxy> {
    // Half-open: a client that goes away must not take along what it has sent.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    const proxy = new Proxy(server)
    server.on('connection', (client) => proxy.#join(client, target.port))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get port(): number {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    return address.port
  }

  #join(client: Socket, port: number): void {
    if (this.refuses) return void client.resetAndDestroy()
    this.connections++
    const target = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
    const pair: Pair = { client, target, up: new Lane(client, target, this), down: new Lane(target, client, this) }
    this.#pairs.add(pair)
    client
      .on('error', () => undefined)
      .on('end', () => pair.up.end())
      .on('close', () => pair.up.end())
    target
      .on('error', () => undefined)
      .on('end', () => pair.down.end())
      .on('close', () => pair.down.end())
    void pair.up.run().then(() => target.destroySoon())
    void pair.down.run().then(() => client.destroySoon())
    target.on('close', () => {
      this.#pairs.delete(pair)
      client.destroy()
    })
  }

  /** The connections there are now hand nothing on upwards; answers how to let them flow again. */
  holdUp(): Held {
    return this.#hold(({ up }) => up)
  }

  /** The same downwards, towards the client. What waited arrives at once when it flows. */
  holdDown(): Held {
    return this.#hold(({ down }) => down)
  }

  #hold(laneOf: (pair: Pair) => Lane): Held {
    const pairs = [...this.#pairs]
    const lanes = pairs.map(laneOf)
    for (const lane of lanes) lane.hold()
    return {
      waiting: () => Buffer.concat(lanes.map((lane) => lane.waiting)),
      cutClients: () => {
        for (const { client } of pairs) client.destroy()
      },
      flow: () => {
        for (const lane of lanes) lane.flow()
      },
    }
  }

  /** Resets every connection; new ones are taken unless `refuses` is set. */
  cut(): void {
    for (const { client, target } of this.#pairs) {
      client.resetAndDestroy()
      target.resetAndDestroy()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.refuses = true
    for (const { client, target } of this.#pairs) {
      client.destroy()
      target.destroy()
    }
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
