import { createSession } from 'better-sse'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Emitted } from '../kit/history.ts'
import { ForeignJobs, readScript, streamPath, type ForeignAgent } from './foreign-job.ts'

/** It sends every value as JSON, and calls an event without a name `message`. */
const said = (number: number, last: boolean): Emitted => ({
  id: String(number),
  name: last ? 'done' : number % 3 === 0 ? 'message' : 'output',
  data: JSON.stringify(last ? {} : { number, text: `line ${number}\n 北😀` }),
})

/**
 * An agent as users of better-sse write one. `ids`: does it name its events? The library gives a new random id to every
 * event that is pushed without one, each time it is pushed.
 */
export async function startBetterSseAgent({ ids }: { ids: boolean }): Promise<ForeignAgent> {
  const jobs = new ForeignJobs(said)
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://agent')
    const job = jobs.job(pathname.split('/')[1] ?? '', readScript(searchParams))
    const session = await createSession(request, response, { retry: 300, keepAlive: 500 })
    const gone = new AbortController()
    session.once('disconnected', () => gone.abort(new Error('nobody listens')))
    const lastEventId = session.lastId === '' ? null : session.lastId
    for await (const { id, name, data } of job.events(lastEventId, gone.signal)) {
      session.push(JSON.parse(data), name ?? undefined, ids && id !== null ? id : undefined)
    }
    response.end()
  }
  const server = createServer((request, response) => void serve(request, response))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: (name, script) => `${url}${streamPath(name, script)}`,
    emission: async (name) => jobs.emission(name),
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  }
}
