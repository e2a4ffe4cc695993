import type { RunStatus } from './records.ts'
import type { RunSpec } from './run.ts'

/**
 * How a run fares, from what is known of it. Two heartbeats answer two questions: liveness says bytes come from an agent,
 * progress says that the agent gets somewhere. They are never mixed up: nothing here ends a run, or calls it orphaned,
 * because of liveness.
 */
export type Verdict = 'running' | 'quiet' | 'stalled' | 'disconnected' | 'orphaned' | 'ended'

/** From best to worst; older signs never make a better verdict. `ended` is final. */
export const VERDICTS: readonly Verdict[] = ['running', 'quiet', 'stalled', 'disconnected', 'orphaned', 'ended']

export const isVerdict = (value: unknown): value is Verdict => VERDICTS.includes(value as Verdict)

const rank = (verdict: Verdict): number => VERDICTS.indexOf(verdict)

export type Thresholds = {
  /** Without progress for so long a run is quiet. */
  readonly quietMs: number
  /** Without progress for so long it is stalled: the connection is fine, the agent is not. */
  readonly stallMs: number
  /** Without a connection for so long it is disconnected. */
  readonly disconnectMs: number
  /** Without progress for so long, and nobody connected, it is an orphan. */
  readonly orphanMs: number
  /** Without an owner for so long it has none; shorter, and a takeover is under way. */
  readonly ownerlessMs: number
}

/** What is known of a run. An age is null where there is no such sign, or it has expired: then it is taken as endless. */
export type Signs = {
  readonly status: RunStatus | null
  /** Since somebody asked for the run: no run lacks signs for longer than it has been wanted. */
  readonly registeredAgeMs: number | null
  /** Since bytes last came from an agent of it. */
  readonly livenessAgeMs: number | null
  /** Since an agent of it last got somewhere. */
  readonly progressAgeMs: number | null
  /** Since the end of the time an agent said it would be busy; negative while that lasts. Null: none ever said so. */
  readonly busyOverMs: number | null
  /** Since it was last claimed by anybody; 0 while it is. */
  readonly ownerlessMs: number
  /** Since a job was last connected according to `status`; 0 while one is. */
  readonly unconnectedMs: number
}

/** A run's own thresholds stand before the common ones. */
export function thresholdsOf(
  spec: Pick<RunSpec, 'quietMs' | 'stallMs' | 'orphanMs'> | null,
  common: Thresholds,
): Thresholds {
  return {
    ...common,
    quietMs: spec?.quietMs ?? common.quietMs,
    stallMs: spec?.stallMs ?? common.stallMs,
    orphanMs: spec?.orphanMs ?? common.orphanMs,
  }
}

/** Is a job connected, as the owner last said? */
export const isConnected = (status: RunStatus | null): boolean =>
  status?.state === 'running' && status.jobs.some(({ state }) => state === 'connected')

/** What the signs say, each taken at its word. */
export function judge(signs: Signs, thresholds: Thresholds): Verdict {
  const { status, registeredAgeMs, livenessAgeMs, progressAgeMs, busyOverMs, ownerlessMs, unconnectedMs } = signs
  if (status?.state === 'ended') return 'ended'
  const wantedMs = registeredAgeMs ?? Infinity
  const noProgressMs = Math.min(progressAgeMs ?? Infinity, busyOverMs ?? Infinity, wantedMs)
  const silentMs = Math.min(livenessAgeMs ?? Infinity, wantedMs)
  const isOwnerless = ownerlessMs >= thresholds.ownerlessMs
  const isUnconnected = unconnectedMs >= thresholds.disconnectMs
  if (noProgressMs >= thresholds.orphanMs && (isOwnerless || isUnconnected)) return 'orphaned'
  // An agent that sends no keepalives is not disconnected by being silent: only without a connection does silence count.
  if (isOwnerless || (isUnconnected && silentMs >= thresholds.disconnectMs)) return 'disconnected'
  if (noProgressMs >= thresholds.stallMs) return 'stalled'
  return noProgressMs >= thresholds.quietMs ? 'quiet' : 'running'
}

/** The same signs, none of them older than we have been able to see one being written. */
function within(signs: Signs, observedMs: number): Signs {
  const seen = (ageMs: number | null): number => Math.min(ageMs ?? Infinity, observedMs)
  return {
    ...signs,
    livenessAgeMs: seen(signs.livenessAgeMs),
    progressAgeMs: seen(signs.progressAgeMs),
    ownerlessMs: seen(signs.ownerlessMs),
    unconnectedMs: seen(signs.unconnectedMs),
  }
}

/**
 * The verdict to hold from now on. Nobody is judged on what could not be written: `observedMs` is how long signs could
 * be written and were looked for, without a break, and silence counts no longer than that. What the signs say beyond it
 * (they may be right: a watchdog that has seen more said so) keeps an earlier verdict, and makes no worse one.
 */
export function nextVerdict(previous: Verdict, signs: Signs, thresholds: Thresholds, observedMs: number): Verdict {
  const proven = provenVerdict(signs, thresholds, observedMs)
  const possible = judge(signs, thresholds)
  return rank(proven) <= rank(previous) && rank(previous) <= rank(possible) ? previous : proven
}

/** The worst that can be said with certainty: what may be acted upon. */
export const provenVerdict = (signs: Signs, thresholds: Thresholds, observedMs: number): Verdict =>
  judge(within(signs, observedMs), thresholds)

/**
 * What can be shown by one who tells nothing and keeps no verdicts: `told`, what a watchdog last told of the run, while
 * the signs allow it; else what is proven. Null where the signs may mean trouble, and nothing of it is proven yet.
 */
export function shownVerdict(
  told: Verdict | null,
  signs: Signs,
  thresholds: Thresholds,
  observedMs: number,
): Verdict | null {
  const proven = provenVerdict(signs, thresholds, observedMs)
  const possible = judge(signs, thresholds)
  if (told !== null && rank(proven) <= rank(told) && rank(told) <= rank(possible)) return told
  return proven === 'running' && possible !== 'running' ? null : proven
}

/**
 * Is a changed verdict worth telling? Not that a run which was never in trouble has ended; and after an end there is
 * nothing more to tell.
 */
export function isNews(previous: Verdict, verdict: Verdict): boolean {
  if (previous === verdict || previous === 'ended') return false
  return !(previous === 'running' && verdict === 'ended')
}
