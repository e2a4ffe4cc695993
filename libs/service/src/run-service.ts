import { ConfigError } from './config.ts'
import type { Log } from './log.ts'

/**
 * Runs a process: the first SIGTERM or SIGINT aborts the signal and `start` drains and returns; a second one, or
 * the end of the grace period, exits 1. Exit 0 only after a clean drain. Whatever `start` throws is a bug or a
 * configuration mistake: it is said once and the process ends, so that what it held moves on.
 */
export async function runService(
  start: (stop: AbortSignal) => Promise<void>,
  options: { log: Log; graceMs: number },
): Promise<never> {
  const { log, graceMs } = options
  const stop = new AbortController()
  const onSignal = (name: NodeJS.Signals) => {
    if (stop.signal.aborted) {
      log.error({ signal: name }, 'stop.forced')
      process.exit(1)
    }
    log.info({ signal: name, grace_ms: graceMs }, 'stop.asked')
    stop.abort(new Error(`stopped by ${name}`))
    setTimeout(() => {
      log.error({ grace_ms: graceMs }, 'stop.overdue')
      process.exit(1)
    }, graceMs).unref()
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  try {
    await start(stop.signal)
    if (!stop.signal.aborted) throw new Error('the service ended by itself')
    log.info('stop.done')
    process.exit(0)
  } catch (error) {
    log.fatal({ err: error }, 'service.failed')
    process.exit(1)
  }
}

/** Reads the configuration or says what is wrong with it, on stderr, and exits 2. */
export function orExit<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(2)
  }
}
