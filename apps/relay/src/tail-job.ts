import type { EndReason, JobEvent } from '@baton/core/event'
import type { JobCursor, JobState } from '@baton/core/records'
import type { JobSpec } from '@baton/core/run'
import type { Log } from '@baton/service/log'
import { JobTail } from './job-tail.ts'
import type { Upstream } from './upstream.ts'

/** A stored event of the job, as the log still keeps it: what a replay is compared with. */
export type KeptEvent = Pick<JobEvent, 'type' | 'name' | 'upstreamId' | 'upstreamOffset' | 'ordinal' | 'data'>

export type JobOutcome = { readonly reason: EndReason; readonly detail: string | null }

export type TailDeps = {
  readonly spec: JobSpec
  readonly run: string
  readonly terminalTypes: readonly string[]
  /** Where the log stands for this job at the moment of the claim. */
  readonly cursor: JobCursor
  /**
   * Shows `each` the job's events still in the log, oldest first; called when a replay has to be compared. One by one,
   * for together they may be more than a process has room for.
   */
  readonly readKept: (each: (event: KeptEvent) => void, signal: AbortSignal) => Promise<void>
  /**
   * Queues an event for the log, in order. Resolves when there is room for the next: that wait is what stops the
   * reading of the upstream. Rejects only when the run is lost or stopped.
   */
  readonly store: (event: JobEvent) => Promise<void>
  /** Any byte arrived. */
  readonly onAlive: () => void
  /** Called at every change, and at every further failure with its reason. */
  readonly onState: (state: JobState, reason: string | null, doubtful?: boolean) => void
  /** How many attempts in a row have not connected; 0 when one has. */
  readonly onFailing: (failures: number) => void
  /** Wall-clock ms since when this job has been failing, from an earlier owner; null when it was not. */
  readonly failingSinceMs: number | null
  /** The same for answers that become final when they last (a 404 of a deploy). */
  readonly doubtfulSinceMs: number | null
  readonly upstream: Upstream
  readonly log: Log
}

/**
 * Keeps one job tailed: connect, resume, hand every new event to `store`, and come back after every cut, until the job
 * is over. Resolves with how it ended; rejects with the signal's reason, or with what `store` or `readKept` rejected.
 */
export async function tailJob(deps: TailDeps, signal: AbortSignal): Promise<JobOutcome> {
  return await new JobTail(deps).run(signal)
}
