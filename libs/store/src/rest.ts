import { setTimeout as delay } from 'node:timers/promises'

/** Waits `ms`; rejects with the signal's own reason as soon as it aborts, for that says why: lost, released, stopped. */
export const rest = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
