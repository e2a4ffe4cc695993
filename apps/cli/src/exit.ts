import { isCode } from '@baton/core/errors'
import { ConfigError } from '@baton/service/config'
import { UpError } from './up/up.ts'

/** What a caller of the CLI can branch on; `baton help exit-codes` shows this table. */
export const EXIT = {
  done: { code: 0, means: 'done; nothing is wrong' },
  wrong: { code: 1, means: 'something is wrong: a check failed, a change was refused, the run did not complete' },
  usage: { code: 2, means: 'the command line, the environment or a registration cannot be used' },
  unreachable: { code: 3, means: 'NATS or the edge did not answer' },
  unknown: { code: 4, means: 'there is no such run, relay or topic' },
  denied: { code: 5, means: 'the edge or NATS does not let this user do it' },
} as const

/** An end of a command that is no success, with what to tell the person. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exit: keyof typeof EXIT

  constructor(exit: keyof typeof EXIT, message: string) {
    super(message)
    this.exit = exit
  }
}

/** The message and exit code of a failure that a person can do something about; null for a bug. */
export function explain(error: unknown): { message: string; code: number } | null {
  if (error instanceof CommandError) return { message: error.message, code: EXIT[error.exit].code }
  if (error instanceof ConfigError) return { message: error.message, code: EXIT.usage.code }
  if (error instanceof UpError) return { message: error.message, code: EXIT.wrong.code }
  if (isCode(error, 'not_found')) return { message: error.message, code: EXIT.unknown.code }
  if (isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) {
    return { message: error.message, code: EXIT.unreachable.code }
  }
  if (isCode(error, 'denied')) return { message: error.message, code: EXIT.denied.code }
  if (error instanceof Error && error.name === 'BatonError') return { message: error.message, code: EXIT.wrong.code }
  return null
}
