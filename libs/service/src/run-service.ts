import { isCode } from '@baton/core/errors'
import { ConfigError } from './config.ts'
import type { Log } from './log.ts'

/** A process cannot start for a reason that a person can act on: one sentence, shown without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/**
 * Runs a process: the first SIGTERM or SIGINT aborts the signal and `start` drains and returns; a second one, or
 * the end of the grace period, exits 1. Exit 0 only after a clean drain. `start` may itself ask for that with its second
 * argument; asked again it does nothing. Whatever `start` throws is said once and the process ends, so that what it
 * held moves on: a reason to act on as a sentence on stderr, anything else, which is a bug, in the log.
 */
export async function runService(
  start: (stop: AbortSignal, askToStop: (by: string) => void) => Promise<void>,
  options: { log: Log; graceMs: number },
): Promise<never> {
  const { log, graceMs } = options
  const stop = new AbortController()
  const onSignal = (name: NodeJS.Signals) => {
    if (stop.signal.aborted) {
      log.error({ signal: name }, 'stop.forced')
      process.exit(1)
    }
    askToStop(name)
  }
  const askToStop = (by: string) => {
    if (stop.signal.aborted) return
    log.info({ signal: by, grace_ms: graceMs }, 'stop.asked')
    stop.abort(new Error(`stopped by ${by}`))
    setTimeout(() => {
      log.error({ grace_ms: graceMs }, 'stop.overdue')
      process.exit(1)
    }, graceMs).unref()
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  try {
    await start(stop.signal, askToStop)
    if (!stop.signal.aborted) throw new Error('the service ended by itself')
    log.info('stop.done')
    process.exit(0)
  } catch (error) {
    sayWhyNotStarted(error)
    log.fatal({ err: error }, 'service.failed')
    process.exit(1)
  }
}

/** A reason that a person can act on is said on stderr, and the process exits 1; returns for anything else. */
export function sayWhyNotStarted(error: unknown): void {
  if (!(error instanceof StartError) && !isCode(error, 'unsupported')) return
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}

/** On the command line of an app: look at the environment, say what is wrong with it, and start nothing. */
export const CHECK_CONFIG = '--check-config'

/**
 * Reads the configuration or says what is wrong with it, on stderr, and exits 2. Asked only to check it, exits 0 where
 * nothing is wrong. Anything else on the command line was meant to say something, and would go unheard: exits 2, too,
 * unless `read` reads the command line itself (`hasOptions`).
 */
export function orExit<T>(read: () => T, { hasOptions = false } = {}): T {
  const unknown = process.argv.slice(2).find((argument) => argument !== CHECK_CONFIG)
  if (unknown !== undefined && !hasOptions) {
    process.stderr.write(`${unknown}: no such option; all but ${CHECK_CONFIG} is said by BATON_* in the environment\n`)
    process.exit(2)
  }
  try {
    const config = read()
    if (process.argv.includes(CHECK_CONFIG)) process.exit(0)
    return config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(2)
  }
}
