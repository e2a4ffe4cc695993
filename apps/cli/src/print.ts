import type { Screen } from './screen.ts'

/** How a command writes: as text for a person, or as JSON for a program. */
export type Print = {
  readonly json: boolean
  /** Columns of the terminal; null where there is no terminal: then nothing is cut. */
  readonly width: number | null
  /** One result: `text` for a person, `value` for a program. */
  result(value: unknown, text: string): void
}

export const createPrint = (
  json: boolean,
  { screen, write }: { screen: Pick<Screen, 'size'>; write: (line: string) => void },
): Print => ({
  json,
  width: screen.size()?.columns ?? null,
  result: (value, text) => write(json ? JSON.stringify(value) : text),
})

/** Below this a cell says nothing any more; a line that is still too long is left to the terminal. */
const LEAST_CELL = 8
const GAP = '  '

/** Rows under their headings; the columns are narrowed where they do not fit into `width`. */
export const table = (
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  width: number | null = null,
): string => columns([headings, ...rows], width)

/** Rows whose cells stand under each other. */
export function columns(rows: readonly (readonly string[])[], width: number | null = null): string {
  const widths = widthsOf(rows, width)
  const line = (cells: readonly string[]) => cells.map((cell, at) => pad(visible(cell), widths[at] ?? 0)).join(GAP)
  return rows.map((row) => line(row).trimEnd()).join('\n')
}

/** How wide each column is: as wide as it needs to be, and the widest give way while all together are too wide. */
export function widthsOf(rows: readonly (readonly string[])[], width: number | null): number[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => visible(row[at] ?? '').length)))
  let beyond = widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length) - (width ?? Infinity)
  for (; beyond > 0; beyond--) {
    const widest = Math.max(...widths)
    if (widest <= LEAST_CELL) break
    widths[widths.indexOf(widest)] = widest - 1
  }
  return widths
}

/** Exactly so wide: filled with blanks, or cut with a mark that says so. */
export const pad = (text: string, width: number): string =>
  text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width)

/**
 * Nothing in it moves a cursor or colours a terminal: agents and publishers choose what stands in many of our lines.
 * Line ends and tabs stay.
 */
export const visible = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- these are the characters that must not get through
  text.replaceAll(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** Labels and values in two columns; what is null is left out. */
export const fields = (pairs: Readonly<Record<string, string | null>>): string =>
  columns(Object.entries(pairs).flatMap(([label, value]) => (value === null ? [] : [[label, value]])))
