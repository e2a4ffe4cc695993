/**
 * When a relay takes another for dead. Only changes seen on the local monotonic clock count; clocks of other hosts are
 * never compared. A wrong suspicion costs one upstream reconnect, never an event: the owner record fences the rest.
 */

/** A beat this late asks for a ping: longer than a busy event loop, shorter than a person notices. */
const LATE_MS = 100
/**
 * Silence through this many beats is death, even without an answer to a ping. Three convicted busy relays: with 500 runs
 * on two shared cores a loop stands still for 0.7 s now and then. Five still leave a paused relay's runs a second to spare.
 */
const MISSED_BEATS = 5

/** What the time since a peer was last heard says: trust it, ping it, or take its silence for death. */
export function suspicion(sinceSeenMs: number, beatMs: number): 'trust' | 'ping' | 'silent' {
  if (sinceSeenMs <= beatMs + LATE_MS) return 'trust'
  return sinceSeenMs > MISSED_BEATS * beatMs + LATE_MS ? 'silent' : 'ping'
}

export type Self = {
  /** How late this process's own timers are. */
  readonly loopLagMs: number
  /** Since this process heard its own beat come back through NATS. */
  readonly sinceOwnBeatMs: number
  /** Since this process's own connection was last (re)made: peers of a restarted server come back one by one. */
  readonly sinceConnectedMs: number
  readonly beatMs: number
}

const RETURN_MS = 1000

/** May this process accuse anybody? Not while it is itself late, deaf, or just back. */
export function mayAccuse(self: Self): boolean {
  return (
    self.loopLagMs < LATE_MS && self.sinceOwnBeatMs <= MISSED_BEATS * self.beatMs && self.sinceConnectedMs >= RETURN_MS
  )
}

/**
 * The server says that nobody listens where a peer should. That needs no doubt about oneself, but where this process has
 * just come back to NATS: a restarted server meets its clients one by one.
 */
export const nobodyConvicts = (sinceReturnedMs: number): boolean => sinceReturnedMs >= RETURN_MS

/** Two or more silent at once, none of them with nobody listening: it is probably this process. How long to doubt. */
const DOUBT_MS = 1000

/** Is silence of this length, shared with `others` peers, enough? One alone is; several need the time of doubt too. */
export function silenceConvicts(sinceSeenMs: number, beatMs: number, others: number): boolean {
  const limitMs = MISSED_BEATS * beatMs + LATE_MS
  return sinceSeenMs > (others > 0 ? limitMs + DOUBT_MS : limitMs)
}
