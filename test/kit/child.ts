import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { eventually } from './eventually.ts'

/** How much of a child's output is kept: the last of it, which says why it died. */
const MAX_OUTPUT_CHARS = 4_000_000

/** Where Node keeps what it has compiled, which changes nothing but how soon a process has started. */
const compiled = process.env['NODE_COMPILE_CACHE']
const COMPILED = compiled === undefined ? {} : { NODE_COMPILE_CACHE: compiled }

/** Every child this process has started and not yet seen end: none may survive it. */
const living = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})
// Whoever stops a test or a fault run by a signal stops its children, too: a signal alone makes no `exit`.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))

/** Name and pid of every child that has not ended. */
export const livingChildren = (): string[] => [...living].map((child) => `${child.spawnfile} (${child.pid})`)

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

/** A real process under test, with its output, and the ways it can be hurt. */
export class Child {
  readonly name: string
  readonly startedAtMs = Date.now()
  readonly #process: ChildProcess
  readonly #onOutput = new Set<() => void>()
  #output = ''
  #exit: Exit | null = null
  readonly exited: Promise<Exit>

  constructor(name: string, command: string, args: readonly string[], environment: Readonly<Record<string, string>>) {
    this.name = name
    this.#process = spawn(command, args, {
      env: { ...COMPILED, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    living.add(this.#process)
    const take = (chunk: string) => {
      this.#output = (this.#output + chunk).slice(-MAX_OUTPUT_CHARS)
      for (const listener of this.#onOutput) listener()
    }
    for (const stream of [this.#process.stdout, this.#process.stderr]) stream?.setEncoding('utf8').on('data', take)
    this.exited = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null) => {
        living.delete(this.#process)
        this.#exit ??= { code, signal }
        resolve(this.#exit)
        for (const listener of this.#onOutput) listener()
      }
      this.#process.once('exit', end)
      this.#process.once('error', (error) => {
        take(`${String(error)}\n`)
        end(null, null)
      })
    })
  }

  get pid(): number {
    const { pid } = this.#process
    if (pid === undefined) throw new Error(`${this.name} did not start: ${this.#output}`)
    return pid
  }

  get output(): string {
    return this.#output
  }

  /** Calls it with each line from now on, of which `output` keeps only the last. */
  eachLine(listener: (line: string) => void): void {
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', listener)
    }
  }

  /** Null while it runs. */
  get exit(): Exit | null {
    return this.#exit
  }

  /** The lines of its output that are JSON objects: what our processes log. */
  get logLines(): readonly Readonly<Record<string, unknown>>[] {
    return this.#output
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .flatMap((line) => {
        try {
          return [JSON.parse(line) as Record<string, unknown>]
        } catch {
          return []
        }
      })
  }

  /** The first match in its output, now or later; throws with the output when it ends before. */
  async said(pattern: RegExp, withinMs = 20_000): Promise<RegExpExecArray> {
    return eventually(
      `${this.name} says ${String(pattern)}`,
      () => {
        const found = pattern.exec(this.#output)
        if (found === null && this.#exit !== null) {
          throw new Error(`${this.name} ended with ${JSON.stringify(this.#exit)}:\n${this.#output.slice(-4000)}`)
        }
        return found
      },
      { withinMs, everyMs: 5 },
    )
  }

  /** Paused by the kernel: it keeps its sockets and its memory, and knows nothing of it. */
  pause(): void {
    this.#process.kill('SIGSTOP')
  }

  resume(): void {
    this.#process.kill('SIGCONT')
  }

  /** Dead at once, as by the out-of-memory killer; resolves when the kernel has closed its sockets. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.exited
  }

  /** Asked to stop; resolves with how it ended, or kills it and throws when it does not within the limit. */
  async terminate(withinMs = 30_000): Promise<Exit> {
    this.#process.kill('SIGTERM')
    const overdue = setTimeout(() => this.#process.kill('SIGKILL'), withinMs)
    const exit = await this.exited
    clearTimeout(overdue)
    if (exit.signal === 'SIGKILL')
      throw new Error(`${this.name} did not stop within ${withinMs} ms:\n${this.#output.slice(-4000)}`)
    return exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#exit === null) await this.kill()
  }
}
