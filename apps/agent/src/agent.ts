import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { listen } from '@baton/service/listen'
import { firstFor, lastEvent } from './emission.ts'
import { Job } from './job.ts'
import { parseAnswers, parseJobOptions } from './job-options.ts'
import { noSentLog, openSentLog, type SentLog } from './sent-log.ts'
import { serveStream } from './serve-stream.ts'

export type Agent = {
  readonly url: string
  /** The jobs made so far, by name. */
  readonly jobs: ReadonlyMap<string, Job>
  close(): Promise<void>
}

const MAX_JOBS = 100_000
const jobName = /^[A-Za-z0-9._-]{1,128}$/

/** Starts the scripted agent. Port 0 = a free one; `log` = the folder of the log of what was sent, null = none. */
export async function startAgent(options: { port: number; host?: string; log: string | null }): Promise<Agent> {
  const { port, host = '127.0.0.1', log } = options
  const routes = new Routes(log === null ? noSentLog : openSentLog(log))
  const server = createServer((request, response) => routes.answer(request, response))
  // Streams are open for as long as they like.
  server.requestTimeout = 0
  const listening = await listen(server, host, port, 'BATON_PORT or --port')
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    jobs: routes.jobs,
    close: () => close(server, routes.log),
  }
}

async function close(server: Server, log: SentLog): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  await closed
  await log.close()
}

class Routes {
  readonly jobs = new Map<string, Job>()
  readonly log: SentLog

  constructor(log: SentLog) {
    this.log = log
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://agent')
    const [, root, name = '', verb = '', ...more] = url.pathname.split('/')
    if (url.pathname === '/livez' || url.pathname === '/readyz') return say(response, 200, 'ok')
    if (root !== 'jobs' || !jobName.test(name) || more.length > 1) return say(response, 404, 'no such path')
    let job: Job
    try {
      job = this.#job(name, url.searchParams, lastEventId(request))
    } catch (error) {
      return say(response, 400, (error as Error).message)
    }
    const route = `${request.method} ${verb}`
    if (route === 'GET ') return sayJson(response, 200, job.show())
    if (route === 'POST ') return sayJson(response, 201, job.show())
    if (route === 'GET emission') return sayJson(response, 200, emission(job))
    if (route === 'POST cancel') return this.#cancel(job, response)
    if (route === 'POST cut') return cut(job, response)
    if (route === 'POST answers') return this.#answerNext(job, url.searchParams.get('next') ?? '', response)
    if (route === 'GET stream') return this.#stream(job, request, response, more[0] ?? null)
    say(response, 404, 'no such path')
  }

  /**
   * The job of that name; the first request makes it, with its query. A demo goes on behind what its reader has, so
   * that it survives a restart of the agent: from the start, its reader would hear nothing new for as long as it has read.
   */
  #job(name: string, query: URLSearchParams, id: string | null): Job {
    const known = this.jobs.get(name)
    if (known !== undefined) return known
    if (this.jobs.size >= MAX_JOBS) throw new RangeError(`there are ${MAX_JOBS} jobs already`)
    const options = parseJobOptions(query)
    const emitted = options.script === 'demo' ? firstFor({ ...options, mode: 'id' }, id, lastEvent(options)) - 1 : 0
    const job = new Job(name, options, emitted)
    this.jobs.set(name, job)
    this.log.add({ event: 'made', job: name, options: job.options })
    return job
  }

  #cancel(job: Job, response: ServerResponse): void {
    job.cancel()
    this.log.add({ event: 'cancel', job: job.name, emitted: job.emitted })
    say(response, 202, 'cancelled')
  }

  /** What the next requests are answered, before it streams again. */
  #answerNext(job: Job, list: string, response: ServerResponse): void {
    try {
      job.next.splice(0, Infinity, ...parseAnswers(list))
    } catch (error) {
      return say(response, 400, (error as Error).message)
    }
    say(response, 202, `${job.next.length} answers`)
  }

  #stream(job: Job, request: IncomingMessage, response: ServerResponse, hop: string | null): void {
    const id = lastEventId(request)
    if (hop === 'loop') return redirect(response, `/jobs/${job.name}/stream/loop`)
    const scripted = hop === 'here' ? 'stream' : (job.next.shift() ?? job.options.answers[job.requests++] ?? 'stream')
    if (scripted !== 'stream') {
      this.log.add({ event: 'answer', job: job.name, answer: scripted, lastEventId: id })
      return refuse(job, response, scripted)
    }
    const first = firstFor(job.options, id, job.emitted)
    // Who comes back when there is nothing more to say need not come again.
    if (job.over && first > job.emitted) {
      this.log.add({ event: 'answer', job: job.name, answer: '204', lastEventId: id })
      return void response.writeHead(204).end()
    }
    void serveStream(job, response, { lastEventId: id, first, log: this.log })
  }
}

/** Node hands header bytes over as Latin-1; the id was sent in UTF-8. */
function lastEventId(request: IncomingMessage): string | null {
  const header = request.headers['last-event-id']
  return typeof header === 'string' && header !== '' ? Buffer.from(header, 'latin1').toString('utf8') : null
}

function refuse(job: Job, response: ServerResponse, answer: string): void {
  const base = `/jobs/${job.name}/stream`
  switch (answer) {
    case 'drop':
      return void response.destroy()
    case 'wrong-type':
      return say(response, 200, '<p>please log in</p>', 'text/html')
    case 'redirect':
      return redirect(response, `${base}/here`)
    case 'redirect-loop':
      return redirect(response, `${base}/loop`)
    case 'redirect-away':
      return redirect(response, 'http://elsewhere.invalid/stream')
    case 'redirect-nowhere':
      return void response.writeHead(302).end()
    default: {
      const { retryAfter } = job.options
      const body = answer === '204' || answer === '304' ? '' : `answer ${answer}\n`
      response.writeHead(Number(answer), retryAfter === '' ? {} : { 'retry-after': retryAfter }).end(body)
    }
  }
}

function cut(job: Job, response: ServerResponse): void {
  const open = job.streams.size
  for (const stream of job.streams) stream.cut()
  sayJson(response, 200, { cut: open })
}

/** Everything emitted so far as a listener from the start would hold it, and every connection there was. */
const emission = (job: Job): object => ({
  ...job.show(),
  events: Array.from({ length: job.emitted }, (_, at) => job.event(at + 1, 0)),
  connections: job.connections,
})

const redirect = (response: ServerResponse, location: string): void => void response.writeHead(307, { location }).end()

const say = (response: ServerResponse, status: number, text: string, type = 'text/plain'): void =>
  void response.writeHead(status, { 'content-type': type }).end(`${text}\n`)

const sayJson = (response: ServerResponse, status: number, body: object): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
