import type { Verdict } from '@baton/core/judge'
import type { Claim, RunStatus } from '@baton/core/records'
import type { RunState } from '@baton/core/run-state'

/** A run as it stands at one moment. */
export type Row = {
  readonly run: string
  readonly state: RunState
  readonly owner: Pick<Claim, 'relay' | 'boot' | 'epoch'> | null
  /** Index of its newest event; null where none is kept. */
  readonly head: number | null
  readonly livenessAgeMs: number | null
  readonly progressAgeMs: number | null
  /** Null where nothing can be said of it yet. */
  readonly verdict: Verdict | null
  /** How often another relay has become its owner since the watch began. */
  readonly takeovers: number
  readonly end: RunStatus['end']
}

export type Field = 'state' | 'owner' | 'epoch' | 'verdict' | 'takeovers'

/** What is worth a line when it changes. Heads and ages change all the time, and are told along. */
const FIELDS: Readonly<Record<Field, (row: Row) => string>> = {
  state: ({ state, end }) => (end === null ? state : `${state} (${end.reason})`),
  owner: ({ owner }) => owner?.relay ?? 'nobody',
  epoch: ({ owner }) => String(owner?.epoch ?? '-'),
  verdict: ({ verdict }) => verdict ?? 'unknown',
  takeovers: ({ takeovers }) => String(takeovers),
}

const NAMES = Object.keys(FIELDS) as Field[]

/** The fields that differ; all of them for a run that was not there before. */
export function changedFields(before: Row | null, row: Row): Field[] {
  if (before === null) return NAMES
  // Two boots of one relay have the same name.
  const isNewBoot = before.owner?.boot !== row.owner?.boot
  return NAMES.filter((name) => FIELDS[name](before) !== FIELDS[name](row) || (name === 'owner' && isNewBoot))
}

/** The same in words: `owner relay-1 → relay-2, epoch 12 → 19, takeovers 0 → 1`. */
export const changeText = (before: Row | null, row: Row, fields: readonly Field[]): string =>
  fields
    .map((name) => {
      const now = FIELDS[name](row)
      return before === null ? `${name} ${now}` : `${name} ${FIELDS[name](before)} → ${now}`
    })
    .join(', ')
