import type { Readable } from 'node:stream'
import { Emission, type Emitted } from '@baton/core/emission'
import { agentName, isKeepalive } from '@baton/core/event'
import type { JobCursor } from '@baton/core/records'
import { Resume, wentOn, type Step } from '@baton/core/resume'
import type { JobSpec } from '@baton/core/run'
import { pause } from '@baton/service/sleep'
import { createSseParser, type SseItem } from '@baton/sse/parse'
import { encodeHeader, MAX_UPSTREAM_ID_BYTES } from '@baton/store/codec'
import { errorName } from './connect-upstream.ts'
import type { SilenceClock } from './silence-clock.ts'
import type { JobOutcome, TailDeps } from './tail-job.ts'

/** After this much quiet, an event that may be new is no longer held back for the sake of a replay it may belong to. */
const QUIET_MS = 5000

type Input = {
  readonly body: Readable
  readonly mode: JobSpec['resume']
  readonly cursor: JobCursor
  /** Last-Event-ID was sent. */
  readonly sent: boolean
  /** What the log knows of the emission, where it has been read; else it is read when something must be compared. */
  readonly emission: Emission | null
  readonly known: () => Promise<Emission>
  readonly silence: SilenceClock
  readonly deps: Pick<TailDeps, 'onAlive' | 'upstream'>
  /** Stores what was decided; tells the outcome when that ends the job. */
  readonly store: (step: Step) => Promise<JobOutcome | null>
}

/** How a connection ended. */
export type ReadEnd = {
  /** Where the job stands now. */
  readonly cursor: JobCursor
  /** It brought something new. */
  readonly fruitful: boolean
  /** The last `retry:` of the agent. */
  readonly retryMs: number | null
  /** Set when the job is over. */
  readonly outcome: JobOutcome | null
  readonly reason: string
}

/**
 * Reads one connection to its end. Aborts `attempt` when the agent has been silent for too long. Reads no further while
 * `store` waits: TCP then holds the agent back. Rejects with what `store` rejected.
 */
export async function readStream(input: Input, attempt: AbortController): Promise<ReadEnd> {
  return await new StreamReader(input).read(attempt)
}

/** What an event's or id's header may hold once it is percent-encoded; nine characters for one is the most. */
export const fitsHeader = (text: string): boolean =>
  text.length * 9 <= MAX_UPSTREAM_ID_BYTES || encodeHeader(text).length <= MAX_UPSTREAM_ID_BYTES

/** An over-long id is as good as none: it cannot be kept, so it could not be sent back. */
const keptId = (id: string | null): string | null => (id !== null && fitsHeader(id) ? id : null)

class StreamReader {
  readonly #input: Input
  /** Null until the first thing that moves the job has come. */
  #resume: Resume | null = null
  #fruitful = false
  #retryMs: number | null = null
  #outcome: JobOutcome | null = null

  constructor(input: Input) {
    this.#input = input
  }

  async read(attempt: AbortController): Promise<ReadEnd> {
    const { body, silence, deps } = this.#input
    const parser = createSseParser({ maxEventBytes: deps.upstream.maxEventBytes })
    const cut = { reason: 'the agent closed the stream' }
    const chunks = untilCut(body, cut)
    const watch = watchSilence(silence, attempt)
    try {
      if (this.#input.mode === 'none') await this.#store((await this.#begin(null)).open())
      while (this.#outcome === null) {
        const { value, done } = await this.#next(chunks, attempt.signal)
        if (done === true) break
        deps.onAlive()
        silence.busy()
        for (const item of parser.push(value)) {
          await this.#item(item)
          if (this.#outcome !== null) break
        }
        silence.heard(performance.now())
        watch.look()
      }
    } finally {
      watch.stop()
    }
    const { aborted, reason } = attempt.signal
    return {
      cursor: this.#resume?.cursor ?? this.#input.cursor,
      fruitful: this.#fruitful,
      retryMs: this.#retryMs,
      outcome: this.#outcome,
      reason: aborted && reason instanceof Error ? reason.message : cut.reason,
    }
  }

  /** The next bytes. While it is undecided what the last ones were, quiet decides. */
  async #next(
    chunks: AsyncGenerator<Uint8Array, void>,
    signal: AbortSignal,
  ): Promise<IteratorResult<Uint8Array, void>> {
    const next = chunks.next()
    const resume = this.#resume
    if (resume?.decided === false) {
      const came = new AbortController()
      const arrived = next.then(() => came.abort())
      await Promise.race([arrived, pause(QUIET_MS, AbortSignal.any([came.signal, signal]))])
      if (!came.signal.aborted) await this.#store(resume.takeQuiet())
    }
    return await next
  }

  /** The first event, or id, of the connection says whether what is stored has to be known. */
  async #begin(id: string | null): Promise<Resume> {
    if (this.#resume !== null) return this.#resume
    const { cursor, known } = this.#input
    const unread = wentOn(this.#input, id) ? new Emission(1, cursor.ordinal, cursor.head) : null
    const emission = this.#input.emission ?? unread ?? (await known())
    this.#resume = new Resume({ ...this.#input, emission })
    return this.#resume
  }

  async #item(item: SseItem): Promise<void> {
    switch (item.kind) {
      case 'event': {
        const id = keptId(item.id)
        if (isKeepalive(item.name)) {
          this.#input.silence.keepalive(performance.now())
          if (id !== null) (await this.#begin(id)).moved(id)
          return
        }
        const resume = await this.#begin(id)
        if (item.name !== null && !fitsHeader(item.name)) {
          // A shortened name would be another name: better a hole that says so.
          await this.#store(resume.tooLarge(id))
        } else {
          const event: Emitted = { id, name: item.name === null ? null : agentName(item.name), data: item.data }
          await this.#store(resume.event(event))
        }
        return
      }
      case 'too-large':
        return await this.#store((await this.#begin(null)).tooLarge(keptId(item.id)))
      case 'id': {
        const id = keptId(item.id)
        if (id !== null) (await this.#begin(id)).moved(id)
        return
      }
      case 'retry':
        this.#retryMs = item.ms
        return
      case 'comment':
        this.#input.silence.keepalive(performance.now())
    }
  }

  async #store(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      this.#outcome = await this.#input.store(step)
      if (step.do === 'take') this.#fruitful = true
      // What follows the end of a job on its connection is not stored.
      if (this.#outcome !== null) return
    }
  }
}

/** A body that breaks off is the ordinary end of a connection: the bytes stop, and `cut` says why. */
async function* untilCut(body: Readable, cut: { reason: string }): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) yield chunk as Uint8Array
  } catch (error) {
    cut.reason = `the stream was cut: ${errorName(error)}`
  }
}

type Watch = {
  /** What is allowed may have become less. */
  readonly look: () => void
  readonly stop: () => void
}

/** Aborts the attempt after too much silence. */
function watchSilence(silence: SilenceClock, attempt: AbortController): Watch {
  let timer: NodeJS.Timeout
  let limitMs: number
  const look = () => {
    clearTimeout(timer)
    limitMs = silence.limitMs
    const leftMs = silence.leftMs(performance.now())
    if (leftMs > 0) timer = setTimeout(look, leftMs)
    else {
      silence.cut()
      attempt.abort(new Error(`silent for ${limitMs / 1000} s`))
    }
  }
  silence.open(performance.now())
  look()
  return {
    look: () => {
      if (silence.limitMs < limitMs) look()
    },
    stop: () => clearTimeout(timer),
  }
}
