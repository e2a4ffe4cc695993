import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Alert } from '@baton/core/records'

export type Received = {
  readonly alert: Alert
  readonly body: string
  readonly headers: Readonly<Record<string, string | undefined>>
}

/** What an operator's alerting listens with. It keeps what it has answered 204, and refuses while told to. */
export class Webhook {
  readonly #server: Server
  readonly received: Received[] = []
  refusals = 0
  refuses = false
  /** Called with each request, before it is answered. */
  onRequest: () => void = () => undefined

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(): Promise<Webhook> {
    const server = createServer()
    const webhook = new Webhook(server)
    server.on('request', (request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
      request.on('end', () => {
        webhook.onRequest()
        if (webhook.refuses) {
          webhook.refusals++
          return void response.writeHead(503).end()
        }
        const headers = request.headers as Record<string, string | undefined>
        webhook.received.push({ alert: JSON.parse(body) as Alert, body, headers })
        response.writeHead(204).end()
      })
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    return webhook
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => void this.#server.close(resolve))
  }
}
