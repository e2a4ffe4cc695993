import { BatonError, isCode } from '@baton/core/errors'
import { END, readEnd, type EndReason, type RunEvent, type StoredEvent } from '@baton/core/event'
import type { Checkpoint, JobStatus, RunStatus } from '@baton/core/records'
import type { Nats } from './connect.ts'
import { expireRegistration, writeStatus } from './registry.ts'
import { rest } from './rest.ts'
import { sealRecords, type Fence } from './write-log.ts'

export type End = { readonly reason: EndReason; readonly detail: string | null }

export type EndDeps = {
  readonly nats: Nats
  readonly fence: Fence
  readonly owner: { readonly relay: string; readonly boot: string }
  readonly jobs: readonly JobStatus[]
  readonly checkpoint: Checkpoint
  /** The age to which RUNS keeps events: what is left of an ended run goes with its log. */
  readonly logAgeMs: number
}

/** What a stored `stream.end` says. */
export function storedEnd(event: StoredEvent): End {
  const { reason, detail = null } = readEnd(event.data)
  return { reason, detail }
}

/** The last event of a run, as it is handed over for storing. */
export function endEvent({ reason, detail }: End): Omit<RunEvent, 'index' | 'epoch'> {
  const data = JSON.stringify(detail === null ? { reason } : { reason, detail })
  const none = { job: null, upstreamId: null, upstreamOffset: null, ordinal: null }
  return { ...none, type: END, name: END, time: new Date().toISOString(), data }
}

/**
 * What follows a stored `stream.end`: the status says ended, the registration and the status are given the log's age
 * to live, the owner record and the checkpoint are sealed. Each step may be repeated by a later owner that finds the
 * end. Tries until it is done; throws `lost` when a later epoch does it.
 */
export async function finishEnd(end: End, deps: EndDeps, signal: AbortSignal): Promise<void> {
  const { nats, fence, owner, jobs, checkpoint, logAgeMs } = deps
  const since = new Date().toISOString()
  const ended: RunStatus = { state: 'ended', end, ...owner, epoch: fence.epoch, jobs, since }
  const steps = [
    () => writeStatus(nats, fence.run, ended, logAgeMs),
    () => expireRegistration(nats, fence.run, logAgeMs),
    // Once more: the status must be the last to go, for a registration that outlives it asks for the run anew.
    () => writeStatus(nats, fence.run, ended, logAgeMs),
    () => sealRecords(nats, fence, { ...owner, since }, checkpoint, logAgeMs),
  ]
  for (const step of steps) await persist(step, signal)
}

async function persist(step: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    try {
      return await step()
    } catch (error) {
      if (!(error instanceof BatonError) || isCode(error, 'lost', 'denied', 'invalid')) throw error
      // The owner record was rolled up by an earlier attempt whose answer was lost: the seal is there.
      if (isCode(error, 'vanished', 'conflict')) return
      await rest(100, signal)
    }
  }
}
