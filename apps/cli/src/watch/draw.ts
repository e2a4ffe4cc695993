import { pad, visible, widthsOf } from '../print.ts'
import type { Screen } from '../screen.ts'
import { toneOf } from '../tone-of.ts'
import type { Row } from './row.ts'

export type Picture = {
  readonly time: string
  readonly rows: readonly Row[]
  /** How many runs there are beside those shown. */
  readonly hidden: number
  readonly relays: number
  readonly watchdogs: number
  /** Since when NATS does not answer; null while it does. */
  readonly lostForMs: number | null
  /** Newest last. */
  readonly changes: readonly string[]
}

type Size = { readonly columns: number; readonly rows: number }

const HEADINGS = ['RUN', 'STATE', 'OWNER', 'EPOCH', 'HEAD', 'BYTE', 'WORK', 'VERDICT', 'TAKEN']
const IS_NUMBER = [false, false, false, true, true, true, true, false, true]
const VERDICT = 7
/** What is kept for the changes, where there are so many. */
const CHANGES = 6

/** How many runs have a place on a screen of this size. */
export const placesFor = (rows: number): number => Math.max(1, rows - 4 - CHANGES)

/** The lines of a screen, none longer than it is wide, no more than it is high. */
export function draw(picture: Picture, { columns, rows }: Size, paint: Screen['paint']): string[] {
  const cells = picture.rows.map(cellsOf)
  const widths = widthsOf([HEADINGS, ...cells], columns)
  const table = cells.map((row, at) =>
    line(row, widths, (text, column) => painted(text, column, picture.rows[at], paint)),
  )
  const more = picture.hidden === 0 ? [] : [paint('faint', cut(`… and ${picture.hidden} more`, columns))]
  const top = [
    cut(headOf(picture), columns),
    line(HEADINGS, widths, (text) => paint('heading', text)),
    ...table,
    ...more,
  ]
  const room = Math.max(0, rows - top.length - 1)
  const changes = room < 2 ? [] : picture.changes.slice(-(room - 1))
  return [...top, ...(changes.length === 0 ? [] : ['']), ...changes.map((one) => cut(visible(one), columns))]
}

const plural = (count: number, word: string): string => `${count === 0 ? 'no' : count} ${word}${count === 1 ? '' : 's'}`

function headOf({ time, rows, hidden, relays, watchdogs, lostForMs }: Picture): string {
  const lost = lostForMs === null ? '' : `NATS does not answer for ${ageText(lostForMs)}  `
  const judged = watchdogs === 0 ? ' (judged here)' : ''
  const counts = [plural(rows.length + hidden, 'run'), plural(relays, 'relay'), plural(watchdogs, 'watchdog') + judged]
  return `${time}  ${lost}${counts.join(', ')}`
}

function cellsOf(row: Row): string[] {
  const { run, state, owner, head, livenessAgeMs, progressAgeMs, verdict, takeovers, end } = row
  return [
    run,
    state,
    visible(owner?.relay ?? '-'),
    String(owner?.epoch ?? '-'),
    String(head ?? '-'),
    ageText(livenessAgeMs),
    ageText(progressAgeMs),
    end?.reason ?? verdict ?? '-',
    String(takeovers),
  ]
}

const line = (
  cells: readonly string[],
  widths: readonly number[],
  paint: (text: string, column: number) => string,
): string =>
  cells
    .map((cell, at) => {
      const width = widths[at] ?? 0
      return paint(IS_NUMBER[at] === true ? pad(cell, width).trimEnd().padStart(width) : pad(cell, width), at)
    })
    .join('  ')

function painted(text: string, column: number, row: Row | undefined, paint: Screen['paint']): string {
  if (row?.state === 'ended') return paint('faint', text)
  return column === VERDICT && row?.verdict != null ? paint(toneOf(row.verdict), text) : text
}

const cut = (text: string, columns: number): string => pad(text, columns).trimEnd()

/** Short enough for a column: `0s`, `12s`, `3m`, `2h`, `5d`. */
export function ageText(ms: number | null): string {
  if (ms === null) return '-'
  const seconds = Math.floor(ms / 1000)
  if (seconds < 100) return `${seconds}s`
  if (seconds < 6000) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
