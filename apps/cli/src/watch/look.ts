import { shownVerdict, thresholdsOf, type Thresholds, type Verdict } from '@baton/core/judge'
import type { Observation } from '@baton/core/observation'
import { presenceOf, runState, verdictIn } from '@baton/core/run-state'
import type { Nats } from '@baton/store/connect'
import { readSigns, type RunSigns } from '@baton/store/heartbeats'
import { readHeadIndexes } from '@baton/store/read-log'
import type { Row } from './row.ts'
import type { Known } from './watched-runs.ts'

/** What has to be read of a run when it is shown. */
export type Details = { readonly head: number | null; readonly signs: RunSigns }

const NO_SIGNS: RunSigns = { livenessAgeMs: null, progressAgeMs: null, busyOverMs: null }

/** Heads and heartbeats of some runs, in two requests for hundreds of them. Throws `unavailable`. */
export async function readDetails(nats: Nats, runs: readonly string[]): Promise<ReadonlyMap<string, Details>> {
  if (runs.length === 0) return new Map()
  const [heads, signs] = await Promise.all([readHeadIndexes(nats, runs), readSigns(nats, runs)])
  return new Map(runs.map((run) => [run, { head: heads.get(run) ?? null, signs: signs.get(run) ?? NO_SIGNS }]))
}

/** How runs are judged: by the word of the watchdogs where there are any, else by their judge, from here. */
export type Judge = {
  readonly told: ReadonlyMap<string, Verdict>
  readonly watchdogs: number
  readonly observation: Observation
  readonly thresholds: Thresholds
}

export function rowOf(known: Known, details: Details | null, judge: Judge): Row {
  const { run, spec, status, claim, takeovers } = known
  const state = runState(spec, status, claim)
  const signs = details?.signs ?? NO_SIGNS
  return {
    run,
    state,
    owner: claim === null || state === 'ended' ? null : { relay: claim.relay, boot: claim.boot, epoch: claim.epoch },
    head: details?.head ?? null,
    livenessAgeMs: signs.livenessAgeMs,
    progressAgeMs: signs.progressAgeMs,
    verdict: state === 'ended' ? 'ended' : verdictIn(state, verdictOf(known, signs, judge)),
    takeovers,
    end: status?.end ?? null,
  }
}

/** A watchdog tells changes only: of a run that was never in trouble it has said nothing, and that is its word. */
function verdictOf(known: Known, signs: RunSigns, judge: Judge): Verdict | null {
  const told = judge.told.get(known.run) ?? null
  if (judge.watchdogs > 0) return told ?? 'running'
  const nowMs = performance.now()
  const { registeredAgeMs, ownerlessMs, unconnectedMs } = judge.observation.ages(known.run, nowMs)
  const thresholds = thresholdsOf(known.spec?.ok === true ? known.spec.value : null, judge.thresholds)
  const { owned, connected } = presenceOf(known.status, known.claim)
  const all = {
    status: known.status,
    ...signs,
    registeredAgeMs,
    ownerlessMs: owned ? 0 : ownerlessMs,
    unconnectedMs: connected ? 0 : unconnectedMs,
  }
  return shownVerdict(told, all, thresholds, judge.observation.observedMs(nowMs))
}
