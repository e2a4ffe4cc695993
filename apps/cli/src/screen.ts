import { styleText } from 'node:util'

/** What is written in another colour, by what it means. */
export type Tone = 'good' | 'doubtful' | 'bad' | 'faint' | 'heading'

const STYLES = { good: 'green', doubtful: 'yellow', bad: 'red', faint: 'dim', heading: 'bold' } as const

/** Where results go: a terminal with a size, or a pipe or file, which has neither columns nor colours. */
export type Screen = {
  /** Null where it is no terminal. */
  readonly size: () => { readonly columns: number; readonly rows: number } | null
  /** Leaves the text as it is where there are no colours, or nobody wants them (NO_COLOR). */
  readonly paint: (tone: Tone, text: string) => string
  /** Writes as it is, for what moves the cursor. */
  readonly write: (text: string) => void
}

export const createScreen = (stream: NodeJS.WriteStream): Screen => ({
  size: () => (stream.isTTY ? { columns: stream.columns || 80, rows: stream.rows || 24 } : null),
  // It looks at the stream, NO_COLOR and FORCE_COLOR by itself.
  paint: (tone, text) => styleText(STYLES[tone], text, { stream }),
  write: (text) => void stream.write(text),
})
