/** How a command writes: as text for a person, or as JSON for a program. */
export type Print = {
  readonly json: boolean
  /** One result: `text` for a person, `value` for a program. */
  result(value: unknown, text: string): void
}

export const createPrint = (json: boolean, write: (line: string) => void): Print => ({
  json,
  result: (value, text) => write(json ? JSON.stringify(value) : text),
})

/** Rows under their headings, each column as wide as it needs to be. */
export const table = (headings: readonly string[], rows: readonly (readonly string[])[]): string =>
  columns([headings, ...rows])

/** Rows whose cells stand under each other. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => (row[at] ?? '').length)))
  const line = (cells: readonly string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return rows.map((row) => line(row).trimEnd()).join('\n')
}

/** Labels and values in two columns; what is null is left out. */
export const fields = (pairs: Readonly<Record<string, string | null>>): string =>
  columns(Object.entries(pairs).flatMap(([label, value]) => (value === null ? [] : [[label, value]])))
