import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Bytes of one direction that may wait here before their sender is no longer read. */
const MAX_WAITING_BYTES = 4 * 2 ** 20

/** One direction of one connection: bytes on their way, which can be held. */
class Lane {
  readonly #from: Socket
  readonly #to: Socket
  readonly #proxy: { readonly delayMs: number; readonly sliceBytes: number }
  #waiting: { readonly bytes: Buffer; readonly atMs: number }[] = []
  #waitingBytes = 0
  #isHeld = false
  #wake = Promise.withResolvers<void>()
  #isOver = false
  /** Bytes that hold this lane when they come, and are held with it. */
  holdAt: string | null = null

  constructor(from: Socket, to: Socket, proxy: { readonly delayMs: number; readonly sliceBytes: number }) {
    this.#from = from
    this.#to = to
    this.#proxy = proxy
    from.on('data', (bytes: Buffer) => {
      if (this.holdAt !== null && bytes.includes(this.holdAt)) this.#isHeld = true
      this.#waiting.push({ bytes, atMs: performance.now() })
      this.#waitingBytes += bytes.length
      if (this.#waitingBytes > MAX_WAITING_BYTES) from.pause()
      this.#wake.resolve()
    })
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
      this.#waitingBytes -= chunk.bytes.length
      if (this.#from.isPaused() && this.#waitingBytes <= MAX_WAITING_BYTES) this.#from.resume()
    }
  }

  async #write(chunk: Buffer): Promise<void> {
    const size = this.#proxy.sliceBytes > 0 ? this.#proxy.sliceBytes : chunk.length
    for (let at = 0; at < chunk.length; at += size) {
      if (this.#to.write(chunk.subarray(at, at + size))) continue
      await drained(this.#to)
    }
  }
}

/** Resolves when a socket takes more, or is gone. */
function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      socket.off('drain', settle).off('close', settle)
      resolve()
    }
    socket.on('drain', settle).on('close', settle)
  })
}

type Held = { readonly waiting: () => Buffer; readonly cutClients: () => void; readonly flow: () => void }

/** Which way bytes are lost: `up` is towards the target. */
export type Direction = 'up' | 'down' | 'both'

/** `from`: the address it is dialled from, where that matters to whoever answers. */
type Target = { readonly port: number; readonly host?: string; readonly from?: string }

type Pair = { readonly client: Socket; readonly target: Socket; readonly up: Lane; readonly down: Lane }

/**
 * A TCP proxy on a port of its own, between two of our processes; `up` is towards the target. Its connections can be
 * held (bytes wait), cut, delayed and sliced, and new ones refused. Bytes held on a connection whose client has gone
 * meanwhile still reach the target when it flows again: a network that delivers late.
 */
export class Proxy {
  readonly #server: Server
  readonly #pairs = new Set<Pair>()
  readonly #targets: readonly Target[]
  #parted: Direction | null = null
  #trap: { readonly direction: 'up' | 'down'; readonly text: string } | null = null
  delayMs = 0
  refuses = false
  /** Bytes handed on at a time; 0 = as they come. */
  sliceBytes = 0
  /** How many connections there have been. */
  connections = 0

  private constructor(server: Server, targets: readonly Target[]) {
    this.#server = server
    this.#targets = targets
  }

  /** A target is on loopback where nothing else is said; so is the proxy, at `at`. Of several, each is the next one's turn. */
  static async start(target: Target | readonly Target[], at = '127.0.0.1'): Promise<Proxy> {
    // Half-open: a client that goes away must not take along what it has sent.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    const proxy = new Proxy(server, [target].flat())
    server.on('connection', (client) => proxy.#connect(client))
    await new Promise<void>((resolve) => server.listen(0, at, resolve))
    return proxy
  }

  get port(): number {
    return this.#address.port
  }

  get host(): string {
    return this.#address.address
  }

  get #address(): AddressInfo {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    return address
  }

  #connect(client: Socket): void {
    if (this.refuses) return void client.resetAndDestroy()
    const { port = 0, host = '127.0.0.1', from } = this.#targets[this.connections++ % this.#targets.length] ?? {}
    const local = from === undefined ? {} : { localAddress: from }
    const target = connect({ port, host, ...local, noDelay: true, allowHalfOpen: true })
    const pair: Pair = { client, target, up: new Lane(client, target, this), down: new Lane(target, client, this) }
    this.#pairs.add(pair)
    for (const lane of this.#lanesOf(pair, this.#parted)) lane.hold()
    if (this.#trap !== null) pair[this.#trap.direction].holdAt = this.#trap.text
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

  /**
   * Connections, new ones too, hand nothing on in that direction from the moment on that these bytes come; answers how to
   * let them flow again.
   */
  holdAt(direction: 'up' | 'down', text: string): { readonly waiting: () => Buffer; readonly flow: () => void } {
    const set = (value: string | null) => {
      this.#trap = value === null ? null : { direction, text: value }
      for (const pair of this.#pairs) pair[direction].holdAt = value
    }
    set(text)
    return {
      waiting: () => Buffer.concat([...this.#pairs].map((pair) => pair[direction].waiting)),
      flow: () => {
        set(null)
        for (const pair of this.#pairs) pair[direction].flow()
      },
    }
  }

  #lanesOf({ up, down }: Pair, direction: Direction | null): Lane[] {
    return [
      ...(direction === 'up' || direction === 'both' ? [up] : []),
      ...(direction === 'down' || direction === 'both' ? [down] : []),
    ]
  }

  /** A network that loses every byte of a direction, of new connections too, and says so to nobody, until it is joined. */
  part(direction: Direction): void {
    this.#parted = direction
    for (const pair of this.#pairs) for (const lane of this.#lanesOf(pair, direction)) lane.hold()
  }

  /** What was on its way when the network was parted arrives. */
  join(): void {
    this.#parted = null
    for (const { up, down } of this.#pairs) for (const lane of [up, down]) lane.flow()
  }

  /** The connections of now go on without a byte and without an end, whoever leaves, until the answer is called. */
  abandon(): () => void {
    const pairs = [...this.#pairs]
    for (const { up, down } of pairs) for (const lane of [up, down]) lane.hold()
    return () => {
      for (const { client, target } of pairs) {
        client.destroy()
        target.destroy()
      }
    }
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
