/** When nobody is here a client that lost its edge is back at once; with thousands they must not come in one moment. */
const FLOOR_MS = 250
const PER_CLIENT_MS = 2.75
const WIDEST_MS = 2750

/**
 * How long clients wait before they come back after a loss: between 0.25 s and a bound that grows with their number, so
 * that the death of an edge brings about 400 reconnects a second and no more. `random` is in [0, 1).
 */
export const reconnectMs = (clients: number, random: number): number =>
  Math.round(FLOOR_MS + random * Math.min(WIDEST_MS, Math.max(FLOOR_MS, clients * PER_CLIENT_MS)))

export type BusyReason = 'limit' | 'draining' | 'unavailable'

const busy: Record<BusyReason, { fromMs: number; toMs: number }> = {
  limit: { fromMs: 1000, toMs: 5000 },
  /** Another edge is there already, or this one is back soon. */
  draining: { fromMs: 250, toMs: 1000 },
  unavailable: { fromMs: 1000, toMs: 3000 },
}

/** How long a client waits that could not be served now. */
export const busyMs = (reason: BusyReason, random: number): number =>
  Math.round(busy[reason].fromMs + random * (busy[reason].toMs - busy[reason].fromMs))
