import type { RunStatus } from '@baton/core/records'
import { CommandError } from './exit.ts'

export const endText = (end: RunStatus['end']): string | null =>
  end === null ? null : `${end.reason}${end.detail === null || end.detail === undefined ? '' : `: ${end.detail}`}`

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')

export const noSuchRun = (run: string): CommandError => new CommandError('unknown', `there is no run ${run}`)
