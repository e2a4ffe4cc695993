import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Transform } from 'node:stream'
import { pipeline, type Writable } from 'node:stream'
import { constants, createBrotliCompress, createDeflate, createGzip } from 'node:zlib'
import { pause } from '@baton/service/sleep'
import { dueMs, lastEvent } from './emission.ts'
import type { Connection, Job, OpenStream } from './job.ts'
import type { JobOptions } from './job-options.ts'
import type { SentLog } from './sent-log.ts'
import { lineEnds, wireEvent, wireGarbage } from './wire.ts'

/** Events encoded and written together when several are due. */
const BATCH = 256
/** A wall clock that was moved is noticed this fast. */
const LONGEST_WAIT_MS = 10_000

const compressors: Readonly<Record<JobOptions['encoding'], (() => Transform) | null>> = {
  identity: null,
  gzip: () => createGzip({ flush: constants.Z_SYNC_FLUSH }),
  deflate: () => createDeflate({ flush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliCompress({ flush: constants.BROTLI_OPERATION_FLUSH }),
}

/** Streams a job from `first` on, until it is over, cut, or nobody reads any more. */
export async function serveStream(
  job: Job,
  response: ServerResponse,
  options: { lastEventId: string | null; first: number; log: SentLog },
): Promise<void> {
  const { lastEventId, first, log } = options
  const connection = job.open(lastEventId, first)
  log.add({ event: 'open', job: job.name, connection: connection.number, lastEventId, first })
  const stream = new JobStream(job, connection, response, log)
  try {
    await stream.run()
  } finally {
    connection.closedAtMs ??= Date.now()
    const { number, last } = connection
    log.add({ event: 'close', job: job.name, connection: number, last, partialBytes: stream.partialBytes })
  }
}

class JobStream {
  readonly #job: Job
  readonly #connection: Connection
  readonly #response: ServerResponse
  readonly #out: Writable
  readonly #log: SentLog
  readonly #closed = new AbortController()
  #next: number
  #quietSinceMs = Date.now()
  #cutting = false
  #wake: () => void = () => undefined
  /** Of the event that was cut. */
  partialBytes = 0

  constructor(job: Job, connection: Connection, response: ServerResponse, log: SentLog) {
    this.#job = job
    this.#connection = connection
    this.#response = response
    this.#log = log
    this.#next = connection.first
    const encoder = compressors[job.options.encoding]?.()
    this.#out = encoder ?? response
    if (encoder !== undefined) pipeline(encoder, response, () => undefined)
    response.on('error', () => undefined)
    response.on('close', () => {
      connection.closedAtMs = Date.now()
      this.#closed.abort(new Error('the connection is closed'))
      this.#wake()
    })
  }

  async run(): Promise<void> {
    const { options, streams } = this.#job
    const encoding = options.encoding === 'identity' ? {} : { 'content-encoding': options.encoding }
    this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...encoding })
    this.#response.flushHeaders()
    this.#response.socket?.setNoDelay(true)
    const open: OpenStream = {
      cut: () => {
        this.#cutting = true
        this.#cut()
        this.#wake()
      },
      wake: () => this.#wake(),
    }
    streams.add(open)
    try {
      if (options.retry !== '') await this.#write(Buffer.from(`retry: ${options.retry}${this.#end}`))
      while (!this.#closed.signal.aborted && !this.#cutting) {
        if (await this.#sendDue()) continue
        if (this.#finished) {
          await new Promise<void>((resolve) => this.#out.end(resolve))
          return
        }
        await this.#sendKeepalive()
        await this.#wait()
      }
    } finally {
      streams.delete(open)
    }
  }

  get #finished(): boolean {
    return this.#job.over && this.#next > this.#job.emitted
  }

  /** Until the next event or sign of life is due, or something else happens. */
  #wait(): Promise<void> {
    const { options, madeAtMs } = this.#job
    const keepaliveMs = Math.min(...[options.commentMs, options.pingMs].filter((ms) => ms > 0))
    const dueAtMs = this.#next > lastEvent(options) ? Infinity : madeAtMs + dueMs(options, this.#next)
    const waitMs = Math.min(dueAtMs, this.#quietSinceMs + keepaliveMs) - Date.now()
    return new Promise((resolve) => {
      if (this.#closed.signal.aborted || this.#cutting || this.#finished) return resolve()
      const timer = setTimeout(resolve, Math.min(LONGEST_WAIT_MS, Math.max(1, waitMs)))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  get #end(): string {
    return lineEnds[this.#job.options.eol]
  }

  /** Sends what is due, up to a batch or up to the cut. False when nothing is. */
  async #sendDue(): Promise<boolean> {
    const { options, emitted } = this.#job
    const { cutAfter } = options
    const sent = this.#next - this.#connection.first
    const left = cutAfter > 0 ? cutAfter - sent : Infinity
    const to = Math.min(emitted, this.#next + Math.min(BATCH, left) - 1)
    if (left <= 0 && emitted >= this.#next) {
      this.#cutting = true
      if (options.cleanCut) await new Promise<void>((resolve) => this.#out.end(resolve))
      else this.#cut()
      return true
    }
    if (to < this.#next) return false
    const parts: Buffer[] = []
    for (let i = this.#next; i <= to; i++) {
      if (options.garbageEvery > 0 && i % options.garbageEvery === 0) parts.push(wireGarbage(options.eol))
      parts.push(Buffer.from(wireEvent(this.#job.event(i, this.#connection.number), options.eol)))
    }
    const bytes = Buffer.concat(parts)
    // In one write all of it is in the socket before the wait for a slow reader; in slices it is after the last.
    if (options.slice === 0) this.#connection.last = to
    if (!(await this.#write(bytes))) return true
    this.#log.add({ event: 'sent', job: this.#job.name, connection: this.#connection.number, from: this.#next, to })
    this.#connection.last = to
    this.#next = to + 1
    this.#quietSinceMs = Date.now()
    return true
  }

  async #sendKeepalive(): Promise<void> {
    const { commentMs, pingMs, eol } = this.#job.options
    const quietMs = Date.now() - this.#quietSinceMs
    if (commentMs > 0 && quietMs >= commentMs) await this.#write(Buffer.from(`: still here${this.#end}${this.#end}`))
    else if (pingMs > 0 && quietMs >= pingMs) {
      await this.#write(Buffer.from(wireEvent({ id: null, name: 'ping', data: String(Date.now()) }, eol)))
    } else return
    this.#quietSinceMs = Date.now()
  }

  /** The first half of the next event, then no more. */
  #cut(): void {
    const { options } = this.#job
    const bytes = Buffer.from(wireEvent(this.#job.event(this.#next, this.#connection.number), options.eol))
    const half = bytes.subarray(0, Math.ceil(bytes.length / 2))
    this.partialBytes = half.length
    this.#out.write(half, () => setImmediate(() => this.#response.destroy()))
    // A reader that does not read must not keep it open.
    setTimeout(() => this.#response.destroy(), 100).unref()
  }

  /** False when the connection closed before all was taken. Waits for a slow reader. */
  async #write(bytes: Buffer): Promise<boolean> {
    const { slice, sliceMs } = this.#job.options
    const size = slice > 0 ? slice : bytes.length
    for (let at = 0; at < bytes.length; at += size) {
      if (this.#closed.signal.aborted || this.#cutting) return false
      if (!this.#out.write(bytes.subarray(at, at + size))) {
        await once(this.#out, 'drain', { signal: this.#closed.signal }).catch(() => undefined)
      }
      // Without a wait the kernel would join the slices.
      if (slice > 0) await (sliceMs > 0 ? pause(sliceMs, this.#closed.signal) : new Promise(setImmediate))
    }
    return !this.#closed.signal.aborted
  }
}
