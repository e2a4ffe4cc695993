/** One event of a run as the log keeps it (nats/README.md, "An event"). Its identity is `index`. */
export type RunEvent = {
  /** Dense number within the run, from 1. A jump is the only proof of a hole. */
  readonly index: number
  /** The stream sequence of the owner record under which it was written. */
  readonly epoch: number
  /** Null for `stream.end`, which belongs to no job. */
  readonly job: string | null
  readonly type: string
  /** The SSE name the agent sent; null where it sent none. */
  readonly name: string | null
  /** The upstream id in force: null before any, '' after the agent reset it. */
  readonly upstreamId: string | null
  /** Events since that id was set; 0 means this event carried it. Null without an id ever set. */
  readonly upstreamOffset: number | null
  /** Place in the job's emission, from 1. Null for `stream.end`. */
  readonly ordinal: number | null
  /** RFC 3339: when the relay read it. */
  readonly time: string
  /** Exactly as the agent sent it. */
  readonly data: string
}

/** An event with the place the log gave it. */
export type StoredEvent = RunEvent & { readonly run: string; readonly sequence: number }

/** What a job hands over for storing: everything but the place in the run. */
export type JobEvent = Omit<RunEvent, 'index' | 'epoch'>

export const END = 'stream.end'
export const GAP = 'stream.gap'

export type EndReason = 'completed' | 'failed' | 'cancelled' | 'orphaned'
export type RunEnd = { readonly reason: EndReason; readonly detail?: string }

export type GapReason = 'no-replay' | 'window' | 'diverged' | 'unreachable' | 'too-large'
export type Gap = { readonly job: string; readonly reason: GapReason; readonly lost: number | null }

/** SSE names that only say "I am alive": they count for liveness and are not stored. */
const keepalives: ReadonlySet<string> = new Set(['ping', 'keepalive', 'heartbeat'])
export const isKeepalive = (name: string | null): boolean => name !== null && keepalives.has(name)

/** Names under `stream.` are Baton's own; an agent's are moved out of the way, not lost. */
export const agentName = (name: string): string => (name.startsWith('stream.') ? `agent.${name}` : name)

/** The type of an event: its SSE name, else the `type` field of its JSON data, else `message`. */
export function eventType(name: string | null, data: string): string {
  if (name !== null && name !== '') return agentName(name)
  // A parse of every event would cost more than the relaying: only what looks like an object with a type is tried.
  if (!/^\s*\{/.test(data) || !data.includes('"type"')) return 'message'
  try {
    const value: unknown = JSON.parse(data)
    if (typeof value !== 'object' || value === null || !('type' in value)) return 'message'
    const { type } = value
    return typeof type === 'string' && type !== '' ? agentName(type) : 'message'
  } catch {
    return 'message'
  }
}

export const DEFAULT_TERMINAL_TYPES: readonly string[] = ['done', 'complete', 'completed', 'end', 'failed', 'cancelled']
export const DEFAULT_PROGRESS_TYPES: readonly string[] = ['output', 'result', 'assistant', 'tool_result']

/** Does this event end its job, and how? Null when it does not. */
export function terminal(type: string, data: string, terminalTypes: readonly string[]): EndReason | null {
  if (terminalTypes.includes(type)) return type === 'failed' || type === 'cancelled' ? type : 'completed'
  return data === '[DONE]' ? 'completed' : null
}

/** How the data of a `stream.end` says the run ended. Whoever wrote that event by hand may have put anything there. */
export function readEnd(data: string): RunEnd {
  try {
    const value = JSON.parse(data) as Partial<RunEnd> | null
    if (typeof value?.reason === 'string') return { reason: value.reason, ...detailOf(value.detail) }
  } catch {
    // Not JSON: it ended, nobody knows how.
  }
  return { reason: 'completed' }
}

const detailOf = (detail: unknown): { detail?: string } => (typeof detail === 'string' ? { detail } : {})
