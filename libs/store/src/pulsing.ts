import { setTimeout as delay } from 'node:timers/promises'
import type { HeldClaim } from './claims.ts'

/**
 * Waits for `work` with signs of life for a claim, each with a call of `onPulse`: they are this wait's and no timer's, so
 * a task that hangs anywhere else loses its claim.
 */
export async function pulsing<T>(
  claim: HeldClaim,
  work: Promise<T>,
  onPulse: () => void = () => undefined,
): Promise<T> {
  const done = new AbortController()
  const watched = work.finally(() => done.abort(new Error('done')))
  watched.catch(() => undefined)
  while (!done.signal.aborted) {
    claim.pulse()
    onPulse()
    await delay(claim.pulseMs, undefined, { signal: done.signal }).catch(() => undefined)
  }
  return await watched
}
