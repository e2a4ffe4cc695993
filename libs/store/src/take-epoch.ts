import { backoffMs } from '@baton/core/backoff'
import { BatonError, isCode } from '@baton/core/errors'
import type { OwnerRecord } from '@baton/core/records'
import { afterNoEpoch } from '@baton/core/settle'
import type { HeldClaim } from './claims.ts'
import type { Nats } from './connect.ts'
import { rest } from './rest.ts'
import { assertOwner, readOwner, readTail, type Fence, type Tail } from './write-log.ts'

const RETRY_MS = 50
/**
 * While a stream has no leader, for seconds, all runs of a relay ask for a new epoch. Asked ever less often, and each at a
 * time of its own, they neither busy the relay nor come back all at once: one that stood still over that was taken for dead.
 */
const MAX_RETRY_MS = 400

/**
 * Makes this process the one writer of a run: a new owner record by compare-and-set on the sequence of the last one, then
 * the tail as of that epoch. Called at a claim, and again whenever the outcome of an append is unknown: what was in
 * flight carries the old epoch and can no longer be stored late.
 *
 * `expected` is the owner record's sequence read *before* the claim; whoever slept since is refused here and has to
 * prove by renewing its claim that the run is still its own. Throws `lost`; waits through everything else, with a sign of
 * life for the claim at each try: who waits for NATS is not dead.
 */
export async function takeEpoch(
  nats: Nats,
  claim: HeldClaim,
  owner: { relay: string; boot: string },
  expected: number,
  signal: AbortSignal,
): Promise<{ fence: Fence; tail: Tail }> {
  const { run } = claim
  let sequence: number | null = expected
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted()
    claim.pulse()
    try {
      sequence ??= (await readOwner(nats, run)).sequence
      const record: OwnerRecord = { ...owner, since: new Date().toISOString() }
      const epoch = await assertOwner(nats, run, sequence, record)
      const fence = { run, epoch }
      return { fence, tail: await tailOf(nats, fence, claim, signal) }
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      const next = afterNoEpoch(error.code)
      if (next === null) throw error
      if (next === 'prove') {
        // Another owner record than the one expected, or none: ours or somebody else's. The claim tells, and only
        // after it has may the newest record be built upon.
        await renewed(claim, signal)
        sequence = null
      }
      await rest(retryMs(attempt), signal)
    }
  }
}

const retryMs = (attempt: number): number =>
  backoffMs(attempt, Math.random(), { baseMs: 2 * RETRY_MS, ceilingMs: MAX_RETRY_MS, floorMs: RETRY_MS / 2 })

/** Reads the tail until it is readable; only a newer owner or a vanished record ends the waiting. */
async function tailOf(nats: Nats, fence: Fence, claim: HeldClaim, signal: AbortSignal): Promise<Tail> {
  for (;;) {
    claim.pulse()
    try {
      return await readTail(nats, fence)
    } catch (error) {
      if (!isCode(error, 'unavailable')) throw error
      await rest(RETRY_MS, signal)
    }
  }
}

/** Proves the claim by renewing it. Throws `lost` when it is somebody else's; waits while NATS has no answer. */
async function renewed(claim: HeldClaim, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    claim.pulse()
    try {
      return await claim.renew()
    } catch (error) {
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight', 'conflict')) throw error
      await rest(RETRY_MS, signal)
    }
  }
}
