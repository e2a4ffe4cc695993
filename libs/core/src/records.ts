import type { Head } from './emission.ts'
import type { EndReason } from './event.ts'
import type { Verdict } from './judge.ts'

/** In claims and beats of watchdogs it stands where a relay's name would; no relay may be called so. */
export const WATCHDOG = 'watchdog'

/** KV `claims`: who tails a run. Its revision is the lock; it expires with its TTL. */
export type Claim = {
  /** Who holds it; `watchdog` where one ends the run. */
  readonly relay: string
  /** The random id of one start of a relay: a restarted process never inherits claims. */
  readonly boot: string
  /** Null until the first renewal after the owner record was stored. */
  readonly epoch: number | null
  /** RFC 3339, for people; no decision reads it. */
  readonly since: string
}

/** `run.<id>.owner` in RUNS. Its stream sequence is the epoch. */
export type OwnerRecord = { readonly relay: string; readonly boot: string; readonly since: string }

/** Where one job's emission stands in the log: enough to resume its upstream. */
export type JobCursor = {
  /** Of its last stored event; 0 when none is stored. */
  readonly ordinal: number
  /** The upstream id in force after that event: null before any, '' after a reset. */
  readonly upstreamId: string | null
  /** Events since that id was set, 0 = the last one carried it; null without an id ever set. */
  readonly upstreamOffset: number | null
  /** The job's last event is a `stream.gap`: a second one in a row says nothing new. */
  readonly gap: boolean
  /**
   * What the event stored as the job's first was, while it is known: by it a replay from the start is told from new
   * events even when the log no longer has the first ones.
   */
  readonly head: Head | null
  /** How the job ended, once a terminal event or an answer of the agent said so. */
  readonly ended: { readonly reason: EndReason; readonly detail: string | null } | null
}

export const FRESH_CURSOR: JobCursor = {
  ordinal: 0,
  upstreamId: null,
  upstreamOffset: null,
  gap: false,
  head: null,
  ended: null,
}

/** `run.<id>.cursor`: a fold of all events up to `index`, so that a new owner reads only what came after. */
export type Checkpoint = {
  readonly index: number
  /** The stream sequence of the event at `index`: where reading on begins. */
  readonly sequence: number
  readonly jobs: Readonly<Record<string, JobCursor>>
}

export type JobState = 'waiting' | 'connecting' | 'connected' | 'failing' | 'completed' | 'failed' | 'cancelled'

export type JobStatus = {
  readonly job: string
  readonly state: JobState
  readonly reason: string | null
  /** RFC 3339 of the first failure in the current row of failures; kept over takeovers. */
  readonly failingSince: string | null
  /** The same for answers that become final when they last, e.g. a 404 while an agent is deployed. */
  readonly doubtfulSince?: string
}

/** KV `status`: what is. Written by the owner alone. */
export type RunStatus = {
  readonly state: 'running' | 'ended'
  readonly end: { readonly reason: EndReason; readonly detail: string | null } | null
  readonly relay: string
  readonly boot: string
  readonly epoch: number
  readonly jobs: readonly JobStatus[]
  /** RFC 3339 of this state. */
  readonly since: string
}

/** Core NATS `relay.beat.<boot>`. */
export type Beat = {
  readonly relay: string
  readonly boot: string
  readonly pid: number
  readonly host: string
  readonly runs: number
  readonly draining: boolean
  readonly loopLagMs: number
}

/** KV `heartbeats`: `liveness.<run>` and `progress.<run>`. */
export type Heartbeat = { readonly relay: string; readonly at: string; readonly job: string }

/** KV `heartbeats`: `busy.<run>`. An agent said it would be busy for so long, counted from when this was stored. */
export type Busy = Heartbeat & { readonly forMs: number }

/** `alert.run.<run>` in ALERTS: a changed verdict. */
export type Alert = {
  readonly run: string
  readonly verdict: Verdict
  readonly previous: Verdict
  /** RFC 3339: when it was found. */
  readonly since: string
  /** Of the last known owner; null when there never was one. */
  readonly epoch: number | null
}
