import { serve, type ServerType } from '@hono/node-server'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import type { AddressInfo } from 'node:net'
import type { Emitted } from '../kit/history.ts'
import { ForeignJobs, readScript, streamPath, type ForeignAgent } from './foreign-job.ts'

/** Some with a name, some without; one line and several. */
const said = (number: number, last: boolean): Emitted => ({
  id: String(number),
  name: last ? 'done' : number % 3 === 0 ? null : 'output',
  data: last ? '{}' : number % 2 === 0 ? `line ${number}\n and 北😀` : JSON.stringify({ number }),
})

/** An agent as users of hono write one, with its `streamSSE`. */
export async function startHonoAgent(): Promise<ForeignAgent> {
  const jobs = new ForeignJobs(said)
  const app = new Hono()
  app.get('/:name/stream', (c) => {
    const job = jobs.job(c.req.param('name'), readScript(new URL(c.req.url).searchParams))
    return streamSSE(c, async (stream) => {
      const gone = new AbortController()
      stream.onAbort(() => gone.abort(new Error('nobody listens')))
      for await (const { id, name, data } of job.events(c.req.header('last-event-id') ?? null, gone.signal)) {
        await stream.writeSSE({ data, ...(id === null ? {} : { id }), ...(name === null ? {} : { event: name }) })
      }
    })
  })
  const server = await new Promise<ServerType>((resolve) => {
    const listening = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, () => resolve(listening))
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: (name, script) => `${url}${streamPath(name, script)}`,
    emission: async (name) => jobs.emission(name),
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  }
}
