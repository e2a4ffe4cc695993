import { isCode } from '@baton/core/errors'
import type { JobState, JobStatus, RunStatus } from '@baton/core/records'
import type { Log } from '@baton/service/log'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { writeStatus } from '@baton/store/registry'

/** Changes within this time are written as one: a job that flaps must not flood the bucket. */
const GATHER_MS = 250

type Deps = {
  readonly nats: Nats
  readonly run: string
  readonly relay: string
  readonly boot: string
  readonly epoch: () => number
  readonly log: Log
}

/** KV `status` of a run while this relay owns it. Late by design: nothing decides by it but people and the watchdog. */
export class StatusWriter {
  readonly #deps: Deps
  readonly #jobs = new Map<string, JobStatus>()
  readonly #since = new Date().toISOString()
  #dirty = true

  constructor(deps: Deps, jobs: readonly JobStatus[]) {
    this.#deps = deps
    for (const job of jobs) this.#jobs.set(job.job, job)
  }

  /** Notes the state of a job; the first failure of a row leaves its time, and a connection takes it away. */
  set(job: string, state: JobState, reason: string | null, doubtful = false): void {
    const before = this.#jobs.get(job)
    const failing =
      state === 'failing' || state === 'failed' || (state === 'connecting' && before?.failingSince != null)
    const failingSince = failing ? (before?.failingSince ?? new Date().toISOString()) : null
    // "connecting" again between two failures says nothing new.
    if (before?.state === 'failing' && state === 'connecting') return
    const doubtfulSince = doubtful ? (before?.doubtfulSince ?? new Date().toISOString()) : undefined
    if (before?.state === state && before.reason === reason && before.doubtfulSince === doubtfulSince) return
    const doubt = doubtfulSince === undefined ? {} : { doubtfulSince }
    this.#jobs.set(job, { job, state, reason, failingSince, ...doubt })
    this.#dirty = true
  }

  jobs(): JobStatus[] {
    return [...this.#jobs.values()]
  }

  /** The jobs that have not ended. */
  open(): JobStatus[] {
    return this.jobs().filter(({ state }) => state !== 'completed' && state !== 'failed' && state !== 'cancelled')
  }

  running(): RunStatus {
    const { relay, boot, epoch } = this.#deps
    return { state: 'running', end: null, relay, boot, epoch: epoch(), jobs: this.jobs(), since: this.#since }
  }

  /** Writes what has changed, until the signal aborts. A status that cannot be written is tried again. */
  async keep(signal: AbortSignal): Promise<void> {
    const { nats, run, log } = this.#deps
    while (!signal.aborted) {
      await pause(GATHER_MS, signal)
      if (!this.#dirty || signal.aborted) continue
      this.#dirty = false
      try {
        await writeStatus(nats, run, this.running())
      } catch (error) {
        // A later epoch has written: this run is no longer ours, and the appends will say so.
        if (isCode(error, 'lost')) return
        this.#dirty = true
        log.debug({ err: error }, 'status.unwritten')
      }
    }
  }
}
