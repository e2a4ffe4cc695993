import { isCode } from '@baton/core/errors'
import { BUSY, readBusyMs } from '@baton/core/busy'
import { cursorOf } from '@baton/core/cursor'
import { DEFAULT_PROGRESS_TYPES, DEFAULT_TERMINAL_TYPES, END, GAP, type RunEvent } from '@baton/core/event'
import type { RunStatus } from '@baton/core/records'
import type { JobSpec, RunSpec } from '@baton/core/run'
import { endState } from '@baton/core/run-state'
import type { Log } from '@baton/service/log'
import type { Slots } from '@baton/service/slots'
import { whenAborted } from '@baton/service/sleep'
import type { HeldClaim } from '@baton/store/claims'
import type { Nats } from '@baton/store/connect'
import { endEvent, finishEnd, storedEnd, type End } from '@baton/store/end-run'
import { pulsing } from '@baton/store/pulsing'
import { readCursors } from '@baton/store/read-cursors'
import { readEvents } from '@baton/store/write-log'
import { takeEpoch } from '@baton/store/take-epoch'
import { Appender, type Budget } from './append.ts'
import { cancelAgent } from './cancel-agent.ts'
import { Checkpoints } from './checkpoints.ts'
import type { Metrics } from './metrics.ts'
import { RunHeartbeats } from './run-heartbeats.ts'
import { StatusWriter } from './run-status.ts'
import { tailJob, type JobOutcome, type KeptEvent } from './tail-job.ts'
import type { Upstream } from './upstream.ts'

/** Failures in a row of every job of a run, after which another relay may try whether it reaches the agents. */
const HOPELESS_AFTER = 5

export type OwnDeps = {
  readonly nats: Nats
  readonly relay: string
  readonly boot: string
  readonly budget: Budget
  readonly upstream: Upstream
  /** How many runs' logs are read back at once. */
  readonly readings: Slots
  readonly heartbeatWriteMs: number
  readonly livenessTtlMs: number
  readonly progressTtlMs: number
  readonly runsMaxAgeMs: number
  readonly metrics: Metrics
  readonly log: Log
}

export type Owned = {
  readonly spec: RunSpec
  readonly claim: HeldClaim
  /** The owner record's sequence as it was before the claim. */
  readonly ownerSequence: number
  /** It has its own epoch. */
  readonly onOwned: () => void
  /** The status an earlier owner left. */
  readonly status: RunStatus | null
  /** Aborts when somebody wishes the run cancelled. */
  readonly cancelled: AbortSignal
  /** Aborts when this relay should hand the run over: it stops, balances, or cannot reach the agents. */
  readonly leave: AbortController
  /** No job of it connects, again and again. */
  readonly onHopeless: () => void
}

export type OwnOutcome = 'ended' | 'released' | 'lost'

/**
 * One run from the claim to its end, or to the moment somebody else has it. The order of its first steps is what keeps
 * the log whole (see write-log.ts); afterwards jobs are tailed side by side into one appender.
 */
export async function ownRun(owned: Owned, deps: OwnDeps): Promise<OwnOutcome> {
  try {
    return await new RunOwner(owned, deps).run()
  } catch (error) {
    if (!owned.claim.lost.aborted && !isCode(error, 'lost')) throw error
    // The log may say that the run is another's before the claim does; given up by revision, it harms no successor's.
    await owned.claim.release().catch(() => undefined)
    return 'lost'
  }
}

class RunOwner {
  readonly #owned: Owned
  readonly #deps: OwnDeps
  readonly #log: Log
  /** Everything of this run in this process ends with this. */
  readonly #over = new AbortController()
  readonly #writing: AbortSignal
  readonly #terminalTypes: readonly string[]
  readonly #progressTypes: ReadonlySet<string>
  readonly #heartbeats: RunHeartbeats
  readonly #status: StatusWriter
  readonly #failures = new Map<string, number>()
  #appender!: Appender
  #checkpoints!: Checkpoints

  constructor(owned: Owned, deps: OwnDeps) {
    const { spec, claim, status } = owned
    const { nats, relay, boot } = deps
    this.#owned = owned
    this.#deps = deps
    this.#log = deps.log.child({ run: spec.run })
    this.#writing = AbortSignal.any([claim.lost, this.#over.signal])
    this.#terminalTypes = spec.terminalTypes ?? DEFAULT_TERMINAL_TYPES
    this.#progressTypes = new Set(spec.progressTypes ?? DEFAULT_PROGRESS_TYPES)
    const progressTtlMs = Math.max(deps.progressTtlMs, spec.stallMs ?? 0, spec.orphanMs ?? 0)
    this.#heartbeats = new RunHeartbeats({
      nats,
      run: spec.run,
      relay,
      writeMs: deps.heartbeatWriteMs,
      ttlMs: { liveness: deps.livenessTtlMs, progress: progressTtlMs },
      over: this.#writing,
    })
    const known = new Map(status?.jobs.map((job) => [job.job, job]))
    this.#status = new StatusWriter(
      { nats, run: spec.run, relay, boot, epoch: () => this.#appender.fence.epoch, log: this.#log },
      spec.jobs.map(({ job }) => ({
        ...(known.get(job) ?? { job, failingSince: null }),
        state: 'waiting',
        reason: null,
      })),
    )
  }

  async run(): Promise<OwnOutcome> {
    const { claim, ownerSequence } = this.#owned
    try {
      const { fence, tail } = await this.#takeEpoch(ownerSequence)
      this.#owned.onOwned()
      this.#log.info({ epoch: fence.epoch, index: tail.last?.index ?? tail.checkpoint?.index ?? 0 }, 'run.owned')
      const { spec } = this.#owned
      const run = { id: spec.run, jobs: spec.jobs.map(({ job }) => job), terminalTypes: this.#terminalTypes }
      const cursors = await this.#pulsing(readCursors(this.#deps.nats, run, tail, this.#writing))
      const nextIndex = Math.max(tail.last?.index ?? 0, cursors.index) + 1
      this.#appender = new Appender(
        {
          nats: this.#deps.nats,
          fence,
          nextIndex,
          budget: this.#deps.budget,
          // On our own record, not on the newest: one that somebody else wrote meanwhile is loss, not ground to stand on.
          takeOver: () => this.#takeEpoch(this.#appender.fence.epoch),
          onStored: (events, sequence, tookMs) => this.#onStored(events, sequence, tookMs),
          onRetry: (code) => this.#deps.metrics.appendRetries.inc({ code }),
          log: this.#log,
        },
        this.#writing,
      )
      const { nats, runsMaxAgeMs } = this.#deps
      this.#checkpoints = new Checkpoints(
        { nats, terminalTypes: this.#terminalTypes, maxAgeMs: runsMaxAgeMs / 7, log: this.#log },
        this.#appender,
        cursors,
        tail.checkpoint?.index ?? 0,
      )
      if (tail.last?.type === END) return await this.#end(storedEnd(tail.last), true)
      return await this.#relay()
    } finally {
      this.#over.abort(new Error(`run ${claim.run} is over here`))
    }
  }

  async #takeEpoch(expected: number) {
    const { nats, relay, boot, metrics } = this.#deps
    const taken = await takeEpoch(nats, this.#owned.claim, { relay, boot }, expected, this.#writing)
    metrics.epochs.inc()
    this.#owned.claim.setEpoch(taken.fence.epoch)
    return taken
  }

  /** Tails every job into the log until the run has its end, or it is somebody else's turn. */
  async #relay(): Promise<OwnOutcome> {
    const reading = new AbortController()
    const tailing = AbortSignal.any([this.#writing, this.#owned.leave.signal, reading.signal])
    void this.#status.keep(this.#writing)
    void this.#appender.run().catch((error: unknown) => this.#over.abort(error))
    const tails = this.#owned.spec.jobs.map((job) => this.#tail(job, tailing))
    const end = await this.#pulsing(this.#decide(Promise.all(tails), tailing), () => this.#checkpoints.writeByAge())
    reading.abort(new Error('nothing more is read'))
    // Every one of them: what a job that waits for room has still in hand must not come behind the end.
    await this.#pulsing(Promise.allSettled(tails))
    this.#writing.throwIfAborted()
    if (end === null) return await this.#handOver()
    // What a job was doing when it was stopped is no longer so.
    if (end.reason === 'cancelled') for (const { job } of this.#status.open()) this.#status.set(job, 'cancelled', null)
    await this.#pulsing(this.#store(endEvent(end)))
    return await this.#end(end)
  }

  /** How the run ends; null when it goes on elsewhere. Once cancelled, whatever its jobs do meanwhile, it is cancelled. */
  async #decide(tails: Promise<JobOutcome[]>, tailing: AbortSignal): Promise<End | null> {
    const { cancelled } = this.#owned
    const jobs = tails.then(summary).catch((error: unknown) => {
      if (tailing.aborted) return null
      throw error
    })
    const stopped = whenAborted(tailing).then(() => null)
    const cancelling = whenAborted(cancelled).then(() => this.#cancelAgents(tailing))
    const first = await Promise.race([stopped, jobs, cancelling])
    return first !== null && cancelled.aborted ? await Promise.race([stopped, cancelling]) : first
  }

  async #cancelAgents(signal: AbortSignal): Promise<End> {
    this.#log.info('run.cancelling')
    await Promise.all(this.#owned.spec.jobs.map((job) => cancelAgent(job, this.#deps.upstream, this.#log, signal)))
    return { reason: 'cancelled', detail: null }
  }

  async #tail(spec: JobSpec, signal: AbortSignal): Promise<JobOutcome> {
    const { run } = this.#owned.spec
    const cursor = cursorOf(this.#checkpoints.cursors, spec.job)
    const known = this.#status.jobs().find(({ job }) => job === spec.job)
    if (cursor.ended !== null) {
      this.#status.set(spec.job, endState(cursor.ended.reason), cursor.ended.detail)
      return cursor.ended
    }
    const outcome = await tailJob(
      {
        spec,
        run,
        terminalTypes: this.#terminalTypes,
        cursor,
        readKept: (each, reading) => this.#readKept(spec.job, each, reading),
        store: (event) => this.#appender.push(event),
        onAlive: () => this.#heartbeats.beat('liveness', spec.job),
        onState: (state, reason, doubtful) => this.#status.set(spec.job, state, reason, doubtful),
        onFailing: (failures) => this.#onFailing(spec.job, failures),
        failingSinceMs: atMs(known?.failingSince),
        doubtfulSinceMs: atMs(known?.doubtfulSince),
        upstream: this.#deps.upstream,
        log: this.#log.child({ job: spec.job }),
      },
      signal,
    )
    this.#status.set(spec.job, endState(outcome.reason), outcome.detail)
    return outcome
  }

  /** What the log keeps of a job. What is queued is stored first, so that the answer is whole. */
  async #readKept(job: string, each: (event: KeptEvent) => void, signal: AbortSignal): Promise<void> {
    const { nats, readings } = this.#deps
    await this.#appender.flush(signal)
    await readings.use(async () => {
      for await (const event of readEvents(nats, this.#owned.spec.run, 1, signal)) if (event.job === job) each(event)
    })
  }

  #onFailing(job: string, failures: number): void {
    this.#failures.set(job, failures)
    const jobs = this.#owned.spec.jobs
    if (jobs.every(({ job }) => (this.#failures.get(job) ?? 0) >= HOPELESS_AFTER)) this.#owned.onHopeless()
  }

  #onStored(events: readonly RunEvent[], sequence: number, tookMs: number): void {
    const { metrics } = this.#deps
    metrics.stored.inc(events.length)
    metrics.appendSeconds.observe(tookMs / 1000)
    for (const event of events) {
      if (event.type === GAP) metrics.gaps.inc()
      if (event.job !== null) this.#sign(event.job, event)
    }
    this.#checkpoints.stored(events, sequence)
  }

  #sign(job: string, { type, data }: RunEvent): void {
    if (this.#progressTypes.has(type)) this.#heartbeats.beat('progress', job)
    const busyMs = type === BUSY ? readBusyMs(data, Date.now()) : null
    if (busyMs !== null) this.#heartbeats.busy(job, busyMs)
  }

  async #store(event: Omit<RunEvent, 'index' | 'epoch'>): Promise<void> {
    await this.#appender.push(event)
    await this.#appender.flush(this.#writing)
  }

  /** Flush, checkpoint, release: the next owner starts from here, at once. */
  async #handOver(): Promise<OwnOutcome> {
    await this.#pulsing(this.#appender.flush(this.#writing))
    await this.#checkpoints.writeLast()
    this.#over.abort(new Error('handed over'))
    await this.#owned.claim.release()
    this.#log.info({ epoch: this.#appender.fence.epoch, index: this.#checkpoints.cursors.index }, 'run.released')
    return 'released'
  }

  async #end(end: End, found = false): Promise<OwnOutcome> {
    const { nats, relay, boot, runsMaxAgeMs } = this.#deps
    const { claim, status } = this.#owned
    const { fence } = this.#appender
    // A relay that only finds the end knows nothing of the jobs: what the last status says of them stays.
    const jobs = found ? (status?.jobs ?? this.#status.jobs()) : this.#status.jobs()
    const ending = {
      nats,
      fence,
      owner: { relay, boot },
      jobs,
      checkpoint: this.#checkpoints.cursors,
      logAgeMs: runsMaxAgeMs,
    }
    await this.#pulsing(finishEnd(end, ending, this.#writing)).catch((error: unknown) => {
      if (!isCode(error, 'lost')) throw error
    })
    this.#over.abort(new Error('the run has ended'))
    await claim.release()
    this.#deps.metrics.ended.inc({ reason: end.reason })
    this.#log.info({ epoch: fence.epoch, reason: end.reason, detail: end.detail }, 'run.ended')
    return 'ended'
  }

  #pulsing<T>(work: Promise<T>, onPulse?: () => void): Promise<T> {
    return pulsing(this.#owned.claim, work, onPulse)
  }
}

const atMs = (time: string | null | undefined): number | null => (time == null ? null : Date.parse(time))

/** A run is failed if one of its jobs is, else cancelled if one is, else completed. */
function summary(outcomes: readonly JobOutcome[]): End {
  const of = (reason: JobOutcome['reason']) => outcomes.find((outcome) => outcome.reason === reason)
  const worst = of('failed') ?? of('cancelled')
  return worst === undefined ? { reason: 'completed', detail: null } : { reason: worst.reason, detail: worst.detail }
}
