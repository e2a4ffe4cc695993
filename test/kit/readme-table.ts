import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './find-binary.ts'

/** The rows of every table of a Markdown file whose first heading is `first`; the marks of code are taken off. */
export function readTables(file: string, first: string): string[][] {
  const found: string[][] = []
  let isInside = false
  for (const line of readFileSync(join(root, file), 'utf8').split('\n')) {
    const cells = line.startsWith('|') ? line.split('|').slice(1, -1).map(bare) : null
    if (cells === null) isInside = false
    else if (cells[0] === first) isInside = true
    else if (isInside && !cells.every((cell) => /^-+$/.test(cell))) found.push(cells)
  }
  return found
}

const bare = (cell: string): string => cell.trim().replace(/^`(.*)`$/, '$1')
