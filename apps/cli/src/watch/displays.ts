import type { Screen } from '../screen.ts'
import { draw, placesFor, type Picture } from './draw.ts'
import { changeText, changedFields, type Field, type Row } from './row.ts'

/** Where the watch is shown: it says of which runs it needs details, and shows what there is. */
export type Display = {
  /** How many runs it has a place for. */
  readonly places: () => number
  /** Whether it shows heads and ages of all of them, or only those of runs that have changed. */
  readonly showsAges: boolean
  readonly show: (picture: Picture, changes: readonly Change[]) => void
  /** Leaves the terminal as it was. */
  readonly close: () => void
}

export type Change = { readonly at: string; readonly before: Row | null; readonly row: Row; readonly fields: Field[] }

export const changeOf = (before: Row | null, row: Row, at: string): Change | null => {
  const fields = changedFields(before, row)
  return fields.length === 0 ? null : { at, before, row, fields }
}

/** `08:31:02` of an RFC 3339 time. */
export const clockOf = (at: string): string => at.slice(11, 19)

const textOf = ({ at, before, row, fields }: Change): string =>
  `${clockOf(at)}  ${row.run}  ${changeText(before, row, fields)}`

const MOST_CHANGES = 100
const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'

/** A terminal: the same screen again and again, in place; the last one stays when it is over. */
export function terminalDisplay(screen: Screen): Display {
  const size = () => screen.size() ?? { columns: 80, rows: 24 }
  const changes: string[] = []
  let lines: string[] = []
  screen.write(ENTER)
  return {
    places: () => placesFor(size().rows),
    showsAges: true,
    show(picture, news) {
      // What was there at the beginning is in the table.
      changes.push(...news.filter(({ before }) => before !== null).map(textOf))
      changes.splice(0, changes.length - MOST_CHANGES)
      lines = draw({ ...picture, changes }, size(), screen.paint)
      screen.write(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\r\n')}${CLEAR_BELOW}`)
    },
    close() {
      screen.write(`${LEAVE}${lines.join('\n')}\n`)
    },
  }
}

/** A pipe or a file: a line for each change. */
export const linesDisplay = (json: boolean, write: (line: string) => void): Display => ({
  places: () => Number.POSITIVE_INFINITY,
  showsAges: false,
  show(_picture, news) {
    for (const change of news) {
      const { at, row, fields } = change
      write(json ? JSON.stringify({ at, ...row, changed: fields }) : textOf(change))
    }
  },
  close: () => undefined,
})
