import { readFileSync } from 'node:fs'
import xterm from '@xterm/headless'
import { Child } from './child.ts'
import { findBinary } from './find-binary.ts'

/** A program in a pseudo terminal of its own, with an emulator that shows what a person would see on it. */
export class Terminal {
  readonly child: Child
  readonly #screen: xterm.Terminal
  #shown = 0

  private constructor(child: Child, screen: xterm.Terminal) {
    this.child = child
    this.#screen = screen
  }

  static start(
    words: readonly string[],
    environment: Readonly<Record<string, string>>,
    { columns = 80, rows = 24 }: { columns?: number; rows?: number } = {},
  ): Terminal {
    const script = findBinary('script')
    if (script === null) throw new Error('this needs script(1) of util-linux')
    const quoted = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
    const line = `stty columns ${columns} rows ${rows}; exec ${quoted}`
    const child = new Child(words.join(' '), script, ['-qefc', line, '/dev/null'], {
      TERM: 'xterm-256color',
      ...environment,
    })
    return new Terminal(child, new xterm.Terminal({ cols: columns, rows, allowProposedApi: true }))
  }

  /** The pid of the program itself, which Ctrl-C would reach. */
  get foreground(): number {
    const { pid } = this.child
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())
  }

  /** The lines of the screen as they are now, without the blanks at their ends. */
  async lines(): Promise<string[]> {
    const { output } = this.child
    const news = output.slice(this.#shown)
    this.#shown = output.length
    await new Promise<void>((resolve) => this.#screen.write(news, resolve))
    const { active } = this.#screen.buffer
    const all = Array.from({ length: this.#screen.rows }, (_, at) => active.getLine(active.baseY + at))
    return all.map((line) => line?.translateToString(true) ?? '')
  }

  /** Whether any line on it was too long and went on in the next. */
  get isWrapped(): boolean {
    const { active } = this.#screen.buffer
    return Array.from({ length: active.length }, (_, at) => active.getLine(at)).some((line) => line?.isWrapped === true)
  }

  /** A full-screen program has its own screen; true while that is shown. */
  get isAlternate(): boolean {
    return this.#screen.buffer.active.type === 'alternate'
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child[Symbol.asyncDispose]()
    this.#screen.dispose()
  }
}
