import type { StoredEvent } from '@baton/core/event'
import type { OwnerRecord } from '@baton/core/records'
import type { Opening, Received } from './sse-client.ts'

/** One event as an agent put it on the wire: its own fields, keepalives left out. */
export type Emitted = {
  /** The value of its own `id:` line; null where it had none, '' where it reset the id. */
  readonly id: string | null
  readonly name: string | null
  readonly data: string
}

/** One connection that an agent served, by its own clock (that of the test: one machine). */
export type AgentConnection = {
  readonly openedAtMs: number
  /** Null while it is open. */
  readonly closedAtMs: number | null
  /** Place in `JobEmission.events` of the first event that went out on it; null when none did. */
  readonly firstEvent: number | null
  /** How many went out on it. */
  readonly sent?: number
}

/** What one job's agent emitted: what somebody would hold who had listened all the time. */
export type JobEmission = {
  readonly job: string
  /** Can the agent be asked for what was missed: all of it, the newest part of it, or nothing? */
  readonly replays: 'all' | 'window' | 'none'
  readonly events: readonly Emitted[]
  readonly connections: readonly AgentConnection[]
}

/** A message of a run's part of the log, in stream order. */
export type LogEntry =
  | { readonly kind: 'event'; readonly sequence: number; readonly storedAtMs?: number; readonly event: StoredEvent }
  | { readonly kind: 'owner'; readonly sequence: number; readonly storedAtMs?: number; readonly owner: OwnerRecord }

/** All that one client saw of one run. */
export type ClientHistory = {
  readonly client: string
  readonly frames: readonly Received[]
  readonly openings: readonly Opening[]
  /** What it could see: every byte, or, as an EventSource, only events. Default: every byte. */
  readonly sees?: 'bytes' | 'events'
  /** A breach of the wire format, in words; null when there was none. */
  readonly breach: string | null
  /** The index of the first event it must get: 1 for a client that follows from the start. */
  readonly firstIndex: number
}

/** All that is known of one run after a schedule of faults. */
export type RunHistory = {
  readonly run: string
  readonly jobs: readonly JobEmission[]
  readonly log: readonly LogEntry[]
  readonly clients: readonly ClientHistory[]
  /** Must the run be over, its log whole and every client at its end? */
  readonly over: boolean
}

/**
 * A broken promise: which invariant of the specification, of which run, and how. `Access` is none of them: NATS has refused
 * something to one of Baton's users, so nats/accounts.conf lacks a right.
 */
export type Violation = {
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I8' | 'Access'
  readonly run: string
  readonly what: string
}
