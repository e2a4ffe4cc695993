import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, copyFileSync, openSync, readSync, statSync, truncateSync } from 'node:fs'
import { pause } from '@baton/service/sleep'

/** One process of the system, and how it is started: each time with the same name, port and environment. */
export type ChildSpec = {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** What it says goes here. */
  readonly logFile: string
  /** Where a person finds it. */
  readonly url: string
  /** Answers 2xx as soon as it can be used. */
  readonly readyUrl: string
}

export type ChildListener = {
  onStart(spec: ChildSpec, pid: number): void
  onEnd(spec: ChildSpec, pid: number, how: string, lastWords: string): void
}

/** From a death to the next start; a promise of `baton up` is "within a second". */
const RESTART_MS = 100
/** A child that lived shorter than this did not really start. */
const SHORT_LIFE_MS = 3000
/** After so many short lives in a row it is started less often, within that second: nothing is won by heating the machine. */
const SHORT_LIVES = 5
const SLOW_RESTART_MS = 800
const MAX_LOG_BYTES = 32 * 2 ** 20

/** Keeps one child alive until it is stopped. */
export class Child {
  readonly spec: ChildSpec
  readonly #listener: ChildListener
  readonly #over = new AbortController()
  #process: ChildProcess | null = null
  #shortLives = 0

  constructor(spec: ChildSpec, listener: ChildListener) {
    this.spec = spec
    this.#listener = listener
  }

  /** Null while it is dead. */
  get pid(): number | null {
    return this.#process?.pid ?? null
  }

  /** Runs it, again and again, until `stop`. */
  async keep(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const startedAtMs = performance.now()
      const failed = await this.#live()
      if (this.#over.signal.aborted) return
      // Who was killed, or asked to end, might have lived.
      const short = failed && performance.now() - startedAtMs < SHORT_LIFE_MS
      this.#shortLives = short ? this.#shortLives + 1 : 0
      await pause(this.#shortLives > SHORT_LIVES ? SLOW_RESTART_MS : RESTART_MS, this.#over.signal)
    }
  }

  /** One life; true where it ended by itself, and not well. */
  async #live(): Promise<boolean> {
    const { command, args, env, cwd, logFile } = this.spec
    keepLogSmall(logFile)
    const log = openSync(logFile, 'a')
    // A group of its own: Ctrl-C in the terminal reaches only `baton up`, which stops the parts in their order.
    const child = spawn(command, args, { env, cwd, stdio: ['ignore', log, log], detached: true })
    closeSync(log)
    this.#process = child
    const ended = new Promise<{ how: string; failed: boolean }>((resolve) => {
      child.once('error', (error) => resolve({ how: error.message, failed: true }))
      child.once('exit', (code, signal) => {
        resolve(signal === null ? { how: `exit code ${code}`, failed: code !== 0 } : { how: signal, failed: false })
      })
    })
    const pid = child.pid ?? 0
    if (pid > 0) this.#listener.onStart(this.spec, pid)
    const watching = setInterval(() => keepLogSmall(logFile), 10_000)
    const { how, failed } = await ended
    clearInterval(watching)
    this.#process = null
    this.#listener.onEnd(this.spec, pid, how, lastLine(logFile))
    return failed
  }

  /** Asks it to end and waits; after `graceMs`, or when `now` aborts, it is killed. */
  async stop(graceMs: number, now: AbortSignal): Promise<void> {
    this.#over.abort(new Error('stopped'))
    const child = this.#process
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise<void>((resolve) => void child.once('exit', () => resolve()))
    const kill = () => void child.kill('SIGKILL')
    child.kill(now.aborted ? 'SIGKILL' : 'SIGTERM')
    const overdue = setTimeout(kill, graceMs)
    now.addEventListener('abort', kill, { once: true })
    await gone
    clearTimeout(overdue)
    now.removeEventListener('abort', kill)
  }
}

/** The file is shared with a running process that appends: it is copied and emptied, never moved. */
function keepLogSmall(file: string): void {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 }
  if (size <= MAX_LOG_BYTES) return
  copyFileSync(file, `${file}.1`)
  truncateSync(file)
}

/** The last line of a log: usually the reason of the death. */
function lastLine(file: string): string {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 }
  if (size === 0) return ''
  const bytes = Buffer.alloc(Math.min(size, 4096))
  const from = openSync(file, 'r')
  readSync(from, bytes, 0, bytes.length, size - bytes.length)
  closeSync(from)
  return bytes.toString().trim().split('\n').at(-1) ?? ''
}
