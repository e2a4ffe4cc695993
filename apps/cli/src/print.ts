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
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, at) => Math.max(heading.length, ...rows.map((row) => (row[at] ?? '').length)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd()
  return [headings, ...rows].map(line).join('\n')
}

/** Labels and values in two columns. */
export const fields = (pairs: Readonly<Record<string, string | null>>): string =>
  table(
    ['', ''],
    Object.entries(pairs).flatMap(([label, value]) => (value === null ? [] : [[label, value]])),
  ).trimStart()
