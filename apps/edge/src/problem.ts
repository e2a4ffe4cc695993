import { STATUS_CODES } from 'node:http'
import { codes, type BatonError, type Code } from '@baton/core/errors'

/** An answer that is a problem (RFC 9457). Its detail is written for the caller, never taken from an exception. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly status: number
  readonly code: string
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, code: string, detail: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

export function problemResponse(problem: Problem): Response {
  const { status, code, message: detail, headers } = problem
  const body = { type: 'about:blank', title: STATUS_CODES[status] ?? 'Error', status, code, detail }
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...headers, 'content-type': 'application/problem+json' },
  })
}

export const UNAVAILABLE = 'the store cannot be reached now; try again'

/** What is said to callers of the failures whose own text names inner things. */
const said: Partial<Record<Code, string>> = {
  in_flight: 'another change to the same thing is under way; try again',
  vanished: 'the store changed underneath; try again',
  unknown_outcome: 'the store did not confirm this in time; it may or may not have happened',
  unavailable: UNAVAILABLE,
  full: 'the store is at its limit',
  denied: 'this edge may not do that',
  unsupported: 'the store lacks something this needs',
}

/** An expected failure as the caller sees it. */
export function toProblem(error: BatonError): Problem {
  const { status, retry } = codes[error.code]
  const headers = retry ? { 'retry-after': '2' } : {}
  return new Problem(status, error.code, said[error.code] ?? error.message, headers)
}
