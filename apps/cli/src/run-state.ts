import type { Claim, RunStatus } from '@baton/core/records'
import type { Parsed, RunSpec } from '@baton/core/run'
import { CommandError } from './exit.ts'

export type RunState = 'waiting' | 'running' | 'ended' | 'invalid'

export const RUN_STATES: readonly RunState[] = ['waiting', 'running', 'ended', 'invalid']

/** As an edge shows it: ended is final, an invalid registration is nobody's, running means that somebody has had it. */
export const stateOf = (spec: Parsed<RunSpec> | null, status: RunStatus | null, claim: Claim | null): RunState => {
  if (status?.state === 'ended') return 'ended'
  if (spec?.ok === false) return 'invalid'
  return claim !== null || status?.state === 'running' ? 'running' : 'waiting'
}

export const endText = (end: RunStatus['end']): string | null =>
  end === null ? null : `${end.reason}${end.detail === null || end.detail === undefined ? '' : `: ${end.detail}`}`

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')

export const noSuchRun = (run: string): CommandError => new CommandError('unknown', `there is no run ${run}`)
