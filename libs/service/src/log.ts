import { pino, type Logger } from 'pino'

export type Log = Logger

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/**
 * One JSON line for each thing that happened: `event` is `noun.past` (`claim.lost`), the rest fixed fields
 * (run, relay, boot, epoch, job, took_ms, code, err). Never a payload, a token or a header value.
 */
export function createLog(app: string, level: LogLevel): Log {
  return pino({
    name: app,
    level,
    messageKey: 'event',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: ['headers', 'secret', 'token', 'authorization', 'cookie'], censor: '[hidden]' },
  })
}
