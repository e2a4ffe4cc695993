import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * An agent that says exactly what a test has it say, when it says it. It begins with nothing, answers every request with
 * a stream, and replays what it has said after the Last-Event-ID.
 */
export class HandAgent {
  readonly #server: Server
  readonly #open = new Set<ServerResponse>()
  readonly #said: { readonly name: string; readonly data: string }[] = []
  /** While true, nobody is let in. */
  refuses = false

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(): Promise<HandAgent> {
    const server = createServer()
    const agent = new HandAgent(server)
    server.on('request', (request, response) => agent.#answer(Number(request.headers['last-event-id'] ?? 0), response))
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    return agent
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/stream`
  }

  /** Streams that are open now. */
  get connections(): number {
    return this.#open.size
  }

  #answer(after: number, response: ServerResponse): void {
    if (this.refuses) return void response.writeHead(503).end()
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    response.on('close', () => this.#open.delete(response))
    this.#open.add(response)
    for (let at = after; at < this.#said.length; at++) response.write(this.#frame(at))
  }

  #frame(at: number): string {
    const { name, data } = this.#said[at] ?? { name: '', data: '' }
    return `id: ${at + 1}\nevent: ${name}\ndata: ${data}\n\n`
  }

  say(name: string, data: unknown = {}): void {
    this.#said.push({ name, data: JSON.stringify(data) })
    for (const response of this.#open) response.write(this.#frame(this.#said.length - 1))
  }

  keepalive(): void {
    for (const response of this.#open) response.write(': here\n\n')
  }

  /** Does something every so often until what it returns is disposed of. */
  every(ms: number, work: () => void): Disposable {
    const timer = setInterval(work, ms)
    return { [Symbol.dispose]: () => clearInterval(timer) }
  }

  cut(): void {
    for (const response of this.#open) response.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut()
    await new Promise((resolve) => void this.#server.close(resolve))
  }
}
