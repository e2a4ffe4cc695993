import { advance } from '@baton/core/cursor'
import { isCode } from '@baton/core/errors'
import { DEFAULT_TERMINAL_TYPES, END, type RunEvent } from '@baton/core/event'
import type { Checkpoint, JobStatus } from '@baton/core/records'
import { readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Claims, HeldClaim } from '@baton/store/claims'
import { REQUEST_TIMEOUT_MS, type Nats } from '@baton/store/connect'
import { endEvent, finishEnd, storedEnd, type End } from '@baton/store/end-run'
import { readProgressRevision } from '@baton/store/heartbeats'
import { BUCKET } from '@baton/store/names'
import { pulsing } from '@baton/store/pulsing'
import { readCursors } from '@baton/store/read-cursors'
import { append, readOwner, type Fence } from '@baton/store/write-log'
import { takeEpoch } from '@baton/store/take-epoch'
import type { Self } from './presence.ts'

/** A run judged to be an orphan, with what it was judged on. */
export type Orphan = {
  readonly run: string
  /** Whose claim there was; null for none. */
  readonly holder: string | null
  readonly progressRevision: number
  readonly jobs: readonly string[]
  readonly jobStatuses: readonly JobStatus[]
  readonly terminalTypes: readonly string[] | null
}

export type EndOrphanDeps = {
  readonly nats: Nats
  readonly self: Self
  readonly claims: Claims
  readonly logAgeMs: number
}

const ORPHANED: End = { reason: 'orphaned', detail: 'no progress and nobody connected' }

/**
 * Ends an orphan as its owner would: claim it by revision, store an owner record, append `stream.end`, finish the rest.
 * Whoever had it, a relay paused for an hour, can write nothing after that record. Null: it was left, for somebody else
 * has it now or it has made progress. Throws `lost` and `conflict` when somebody else was first.
 */
export async function endOrphan(orphan: Orphan, deps: EndOrphanDeps, stop: AbortSignal): Promise<End | null> {
  const { nats, claims } = deps
  const { run } = orphan
  const [entry, { sequence }] = [await readKeyAtLeader(nats, BUCKET.claims, run), await readOwner(nats, run)]
  if ((readClaim(entry)?.boot ?? null) !== orphan.holder) return null
  const claim = await claims.take(run, entry.revision)
  try {
    // The last look, now that nobody else can take it: it was judged on what was there a moment ago.
    if ((await readProgressRevision(nats, run)) !== orphan.progressRevision) return null
    return await end(orphan, claim, sequence, deps, AbortSignal.any([stop, claim.lost]))
  } finally {
    await claim.release().catch((error: unknown) => {
      // It expires by itself.
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
    })
  }
}

async function end(
  orphan: Orphan,
  claim: HeldClaim,
  ownerSequence: number,
  { nats, self, logAgeMs }: EndOrphanDeps,
  signal: AbortSignal,
): Promise<End> {
  const { run: id, jobs, jobStatuses } = orphan
  const terminalTypes = orphan.terminalTypes ?? DEFAULT_TERMINAL_TYPES
  const finish = async (end: End, fence: Fence, checkpoint: Checkpoint): Promise<End> => {
    const deps = { nats, fence, owner: self, jobs: jobStatuses, checkpoint, logAgeMs }
    await pulsing(claim, finishEnd(end, deps, signal))
    return end
  }
  for (let expected = ownerSequence; ;) {
    claim.pulse()
    const { fence, tail } = await takeEpoch(nats, claim, self, expected, signal)
    claim.setEpoch(fence.epoch)
    const cursors = await pulsing(claim, readCursors(nats, { id, jobs, terminalTypes }, tail, signal))
    // It had ended already, and whoever wrote that did not live to say so; or our own append was stored after all.
    if (tail.last?.type === END) return await finish(storedEnd(tail.last), fence, cursors)
    const index = Math.max(tail.last?.index ?? 0, cursors.index) + 1
    const event: RunEvent = { ...endEvent(ORPHANED), index, epoch: fence.epoch }
    try {
      const sequence = await append(nats, fence, [event], REQUEST_TIMEOUT_MS)
      return await finish(ORPHANED, fence, advance(cursors, { ...event, sequence }, terminalTypes))
    } catch (error) {
      // Stored or not: only a new epoch tells.
      if (!isCode(error, 'unknown_outcome', 'unavailable', 'vanished', 'in_flight', 'full', 'conflict')) throw error
      expected = fence.epoch
    }
  }
}
