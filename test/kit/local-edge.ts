import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { createLog } from '@baton/service/log'
import { connectNats, type Nats } from '@baton/store/connect'
import { EDGE_DEFAULTS, type EdgeConfig } from '../../apps/edge/src/config.ts'
import { Edge } from '../../apps/edge/src/edge.ts'
import { close, listen } from '../../apps/edge/src/server.ts'

/** An edge within the test's process, so that a test can look at what it holds. */
export class LocalEdge {
  readonly edge: Edge
  readonly url: string
  readonly #server: Server
  readonly #nats: Nats
  readonly #over: AbortController
  readonly #sockets = new Set<Socket>()
  readonly #looking: NodeJS.Timeout
  #mostPending = 0

  private constructor(parts: { edge: Edge; url: string; server: Server; nats: Nats; over: AbortController }) {
    this.edge = parts.edge
    this.url = parts.url
    this.#server = parts.server
    this.#nats = parts.nats
    this.#over = parts.over
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#looking = setInterval(() => {
      for (const socket of this.#sockets) this.#mostPending = Math.max(this.#mostPending, socket.writableLength)
    }, 5)
  }

  /** No limit on opens, unless asked for: a test opens as fast as it can. */
  static async start(natsUrl: string, config: Partial<EdgeConfig> = {}): Promise<LocalEdge> {
    const over = new AbortController()
    const edge = new Edge(
      { ...EDGE_DEFAULTS, opensPerClient: 0, opensTotal: 0, ...config },
      createLog('edge', 'silent'),
    )
    const nats = await connectNats({ servers: [natsUrl], name: 'baton-edge-test' }, AbortSignal.timeout(10_000))
    edge.use(nats, over.signal)
    const { server, port } = await listen(edge, '127.0.0.1', 0)
    return new LocalEdge({ edge, url: `http://127.0.0.1:${port}`, server, nats, over })
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** Connections its server has open. */
  connections(): Promise<number> {
    return new Promise((resolve, reject) =>
      this.#server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
    )
  }

  /** The most that ever waited in one of its sockets, as far as was looked. */
  get mostPendingBytes(): number {
    return this.#mostPending
  }

  /** Messages it has sent to NATS so far. */
  get natsSent(): number {
    return this.#nats.nc.stats().outMsgs
  }

  /** Subscriptions of its connection to NATS. */
  get subscriptions(): number {
    return (
      this.#nats.nc as unknown as { protocol: { subscriptions: { size(): number } } }
    ).protocol.subscriptions.size()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#looking)
    this.edge.close()
    await close(this.#server, 1000)
    this.#over.abort(new Error('the test is over'))
    await this.#nats.nc.close()
  }
}
