/**
 * What can go wrong in ways Baton expects, and what follows. Programs branch on the code, never on the text.
 * `retry`: the same call may succeed later. `status`: what an HTTP caller gets.
 */
export const codes = {
  /** Bad input; the message says what to change. */
  invalid: { retry: false, status: 400 },
  /** No such run, key or message. */
  not_found: { retry: false, status: 404 },
  /** A compare-and-set found another revision or sequence; `actual` carries it where NATS said it. */
  conflict: { retry: false, status: 409 },
  /** More bytes than an event, a header or a request may have. */
  too_large: { retry: false, status: 413 },
  /** Another append for the same subject is in flight (NATS 10164). Never loss of ownership. */
  in_flight: { retry: true, status: 503 },
  /** A newer owner record exists: this process may write nothing more to the run. */
  lost: { retry: false, status: 409 },
  /** The owner record this epoch stands on is gone (size limit, purge): assert it again. */
  vanished: { retry: true, status: 503 },
  /** A write was sent and no answer came: it may be stored or not. Only a new epoch settles it. */
  unknown_outcome: { retry: true, status: 503 },
  /** NATS did not answer, or has no leader for the stream. Nothing was decided. */
  unavailable: { retry: true, status: 503 },
  /** A stream or bucket is at a limit that refuses new messages. */
  full: { retry: true, status: 507 },
  /** NATS or an upstream refused us the right to do this. */
  denied: { retry: false, status: 403 },
  /** The NATS server lacks something Baton stands on (version, JetStream). */
  unsupported: { retry: false, status: 503 },
} as const

export type Code = keyof typeof codes

/** An expected failure. Anything else that is thrown is a bug: it is logged, and ends the process or the run's task. */
export class BatonError extends Error {
  override readonly name = 'BatonError'
  readonly code: Code
  /** For `conflict`: the sequence or revision that was found; null where NATS did not say. */
  readonly actual: number | null

  constructor(code: Code, message: string, options: ErrorOptions & { actual?: number | null } = {}) {
    super(message, options)
    this.code = code
    this.actual = options.actual ?? null
  }
}

/** True for a BatonError of one of these codes. */
export function isCode(error: unknown, ...wanted: Code[]): error is BatonError {
  return error instanceof BatonError && wanted.includes(error.code)
}
