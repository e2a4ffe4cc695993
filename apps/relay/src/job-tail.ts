import { backoffMs } from '@baton/core/backoff'
import { Emission } from '@baton/core/emission'
import { codes, BatonError } from '@baton/core/errors'
import { eventType, GAP, terminal, type Gap, type GapReason } from '@baton/core/event'
import type { JobCursor } from '@baton/core/records'
import { counts, type Place, type Step } from '@baton/core/resume'
import { sleep } from '@baton/service/sleep'
import { connectUpstream, isSendable, type Answer } from './connect-upstream.ts'
import { fitsHeader, readStream, type ReadEnd } from './read-stream.ts'
import { SilenceClock } from './silence-clock.ts'
import type { JobOutcome, TailDeps } from './tail-job.ts'

const LEAST_WAIT_MS = 250
const MOST_WAIT_MS = 30_000
/** The first wait is between 250 ms and this: tails that lost the same agent do not come back in step. */
const FIRST_WAIT_MS = 500
/** Answers that deploys give for a while (401, 403, 404, another content type) become final after this long. */
const DOUBT_MS = 30_000
/** Digests kept of a job's events, to compare a replay with: as many as the log keeps of a run by default. */
const KNOWN_EVENTS = 10_000
const READ_AGAIN_MS = 250
/** How long a replica may be behind before what it says is taken for all there is. */
const STALE_MS = 5000

const clampWait = (ms: number): number => Math.min(MOST_WAIT_MS, Math.max(LEAST_WAIT_MS, ms))

/** One job's tail over all its connections: where it stands, how long it has been failing, when it may try again. */
export class JobTail {
  readonly #deps: TailDeps
  readonly #silence: SilenceClock
  #cursor: JobCursor
  /** Null until a replay may have to be compared with what an earlier owner stored. */
  #emission: Emission | null
  /** Attempts in a row that brought no new event; the waits grow with it. */
  #fruitless = 0
  /** Attempts in a row that did not connect. */
  #failures = 0
  /** On the monotonic clock, however the wall clock goes. */
  #failingSinceMs: number | null
  #doubtfulSinceMs: number | null
  /** From the agent's `retry:`; holds until it sends another. */
  #retryMs = LEAST_WAIT_MS
  /** From the last answer's `Retry-After`. */
  #retryAfterMs = 0

  constructor(deps: TailDeps) {
    this.#deps = deps
    this.#silence = new SilenceClock(deps.upstream.silenceMs)
    this.#cursor = deps.cursor
    const { ordinal, head } = deps.cursor
    this.#emission = ordinal === 0 ? this.#emissionUpTo(0, head) : null
    this.#failingSinceMs = monotonic(deps.failingSinceMs)
    this.#doubtfulSinceMs = monotonic(deps.doubtfulSinceMs)
  }

  async run(signal: AbortSignal): Promise<JobOutcome> {
    const { onState } = this.#deps
    if (this.#failingSinceMs === null) onState('connecting', null)
    for (;;) {
      signal.throwIfAborted()
      const outcome = (await this.#attempt(signal)) ?? (await this.#giveUp())
      if (outcome !== null) return outcome
      await sleep(this.#waitMs(), signal)
    }
  }

  /** One connection from the request to its end. Null: come back. */
  async #attempt(signal: AbortSignal): Promise<JobOutcome | null> {
    const attempt = new AbortController()
    const stop = () => attempt.abort(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    try {
      const { spec, upstream } = this.#deps
      const { upstreamId } = this.#cursor
      const lastEventId = upstreamId !== null && isSendable(upstreamId) ? upstreamId : null
      const known = once(() => this.#known(lastEventId !== null, attempt.signal))
      // Read while the connection is made, where it will be needed; what is wrong with it shows when it is awaited.
      if (lastEventId === null || !counts(lastEventId)) known().catch(() => undefined)
      const answer = await connectUpstream({ spec, upstream, lastEventId }, attempt.signal)
      if (answer.kind !== 'stream') return this.#unconnected(answer)
      this.#connected()
      const { deps, cursor, silence } = { deps: this.#deps, cursor: this.#cursor, silence: this.#silence }
      const store = (step: Step) => this.#store(step)
      const input = { body: answer.body, mode: spec.resume, sent: lastEventId !== null, cursor, silence }
      return this.#disconnected(await readStream({ ...input, emission: this.#emission, known, deps, store }, attempt))
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
      attempt.abort(new Error('this attempt is over'))
    }
  }

  /** What is known of the emission: read from the log once, and only where this job may have to compare with it. */
  async #known(sent: boolean, signal: AbortSignal): Promise<Emission> {
    if (this.#emission !== null) return this.#emission
    const { spec, readKept } = this.#deps
    const { ordinal, head, upstreamOffset } = this.#cursor
    const trusted = spec.resume === 'none' || (spec.resume === 'last-event-id' && sent && upstreamOffset === 0)
    if (trusted) this.#emission = this.#emissionUpTo(ordinal, head)
    const patientUntilMs = performance.now() + STALE_MS
    while (this.#emission === null) {
      try {
        const read = this.#emissionUpTo(0, head)
        await readKept((event) => read.learn(event), signal)
        const emission = read.upTo(ordinal)
        // A log that ends before the cursor was read from a replica that is behind.
        const stale = read.last > 0 && emission.first > ordinal
        if (!stale || performance.now() > patientUntilMs) this.#emission = emission
        else await sleep(READ_AGAIN_MS, signal)
      } catch (error) {
        // NATS is away, not the agent: the stream waits unread until the log can be read.
        if (!(error instanceof BatonError) || !codes[error.code].retry) throw error
        await sleep(READ_AGAIN_MS, signal)
      }
    }
    return this.#emission
  }

  #emissionUpTo(ordinal: number, head: JobCursor['head']): Emission {
    return new Emission(KNOWN_EVENTS, ordinal, head, this.#deps.spec.resume === 'replay')
  }

  #connected(): void {
    this.#failures = 0
    this.#failingSinceMs = null
    this.#doubtfulSinceMs = null
    this.#retryAfterMs = 0
    this.#deps.onState('connected', null)
    this.#deps.onFailing(0)
  }

  #unconnected(answer: Exclude<Answer, { kind: 'stream' }>): JobOutcome | null {
    if (answer.kind === 'over') return { reason: 'completed', detail: answer.reason }
    if (answer.kind === 'refused') return { reason: 'failed', detail: answer.reason }
    const nowMs = performance.now()
    this.#failingSinceMs ??= nowMs
    this.#doubtfulSinceMs = answer.doubtful ? (this.#doubtfulSinceMs ?? nowMs) : null
    if (this.#doubtfulSinceMs !== null && nowMs - this.#doubtfulSinceMs >= DOUBT_MS) {
      return { reason: 'failed', detail: answer.reason }
    }
    this.#fruitless++
    this.#failures++
    this.#retryAfterMs = answer.retryAfterMs ?? 0
    this.#deps.log.debug({ reason: answer.reason, failures: this.#failures }, 'upstream.failed')
    this.#deps.onState('failing', answer.reason, answer.doubtful)
    this.#deps.onFailing(this.#failures)
    return null
  }

  #disconnected(end: ReadEnd): JobOutcome | null {
    this.#cursor = end.cursor
    if (end.retryMs !== null) this.#retryMs = clampWait(end.retryMs)
    if (end.outcome !== null) return end.outcome
    this.#fruitless = end.fruitful ? 0 : this.#fruitless + 1
    this.#deps.log.debug({ reason: end.reason, ordinal: end.cursor.ordinal }, 'upstream.cut')
    this.#deps.onState('connecting', end.reason)
    return null
  }

  #waitMs(): number {
    const floorMs = clampWait(Math.max(this.#retryMs, this.#retryAfterMs))
    const limits = { baseMs: FIRST_WAIT_MS, ceilingMs: MOST_WAIT_MS, floorMs }
    const waitMs = backoffMs(Math.max(0, this.#fruitless - 1), this.#deps.upstream.random(), limits)
    const nowMs = performance.now()
    // What the agent says when the time is up is what counts, and the time is short: nobody sleeps past it.
    const inDoubtMs = this.#doubtfulSinceMs === null ? Infinity : this.#doubtfulSinceMs + DOUBT_MS - nowMs
    return Math.min(waitMs, Math.max(LEAST_WAIT_MS, inDoubtMs), Math.max(0, this.#giveUpAtMs() - nowMs))
  }

  #giveUpAtMs(): number {
    const { giveUpMs } = this.#deps.upstream
    return giveUpMs === 0 || this.#failingSinceMs === null ? Infinity : this.#failingSinceMs + giveUpMs
  }

  /** After too long without a connection the job has failed, and its log says that something is missing. */
  async #giveUp(): Promise<JobOutcome | null> {
    if (performance.now() < this.#giveUpAtMs()) return null
    await this.#storeGap('unreachable', null, this.#cursor)
    return { reason: 'failed', detail: `not reached for ${Math.round(this.#deps.upstream.giveUpMs / 1000)} s` }
  }

  async #store(step: Step): Promise<JobOutcome | null> {
    if (step.do === 'gap') {
      this.#deps.log.info({ reason: step.reason, ordinal: step.ordinal }, 'upstream.gap')
      await this.#storeGap(step.reason, step.lost, step)
      return null
    }
    const { spec, terminalTypes, store } = this.#deps
    const { name, data } = step.event
    const named = eventType(name, data)
    // A name this long never comes here; a `type` in the data does: the data says it, no header needs to.
    const type = fitsHeader(named) ? named : 'message'
    await store({ job: spec.job, type, name, data, time: new Date().toISOString(), ...place(step) })
    const end = terminal(type, data, terminalTypes)
    return end === null ? null : { reason: end, detail: null }
  }

  async #storeGap(reason: GapReason, lost: number | null, at: Place): Promise<void> {
    const { spec, store } = this.#deps
    const gap: Gap = { job: spec.job, reason, lost }
    const data = JSON.stringify(gap)
    await store({ job: spec.job, type: GAP, name: GAP, data, time: new Date().toISOString(), ...place(at) })
  }
}

/** An instant that another relay noted by its wall clock, on the monotonic clock of this one. */
const monotonic = (atMs: number | null): number | null =>
  atMs === null ? null : performance.now() - Math.max(0, Date.now() - atMs)

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let begun: Promise<T> | null = null
  return () => (begun ??= work())
}

const place = ({ ordinal, upstreamId, upstreamOffset }: Place): Place => ({ ordinal, upstreamId, upstreamOffset })
