import { errors, nkeys } from '@nats-io/nats-core'
import { JetStreamApiError, JetStreamError } from '@nats-io/jetstream'
import { BatonError } from '@baton/core/errors'

/** JetStream error codes this project acts on (nats-server: server/errors.json). */
export const API = {
  notFound: 10037,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  /** "wrong last sequence" with no number: another message for that subject is in flight. */
  wrongLastSequenceUnknown: 10164,
  storeFailed: 10077,
  insufficientResources: 10023,
  storageExceeded: 10047,
  messageTooLarge: 10054,
  nameInUse: 10058,
  /** A cluster that does not know all of its peers yet, or whose peers have no room. */
  noPeers: 10005,
  replicasNeedCluster: 10074,
} as const

export type ApiError = { readonly code?: number; readonly err_code?: number; readonly description?: string }

/** The server answers and does not let this user in, or the user's key is none: trying again changes nothing. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof errors.AuthorizationError ||
  error instanceof errors.UserAuthenticationExpiredError ||
  error instanceof nkeys.NKeysError

/** What a JetStream API error means here. `what` names the attempted thing for the message. */
export function fromApiError(error: ApiError, what: string, cause?: unknown): BatonError {
  const text = `${what}: ${error.description ?? 'refused by NATS'}`
  const options = { cause: cause ?? error }
  switch (error.err_code) {
    case API.wrongLastSequence: {
      const found = /wrong last sequence: (\d+)/.exec(error.description ?? '')
      return new BatonError('conflict', text, { ...options, actual: found === null ? null : Number(found[1]) })
    }
    case API.wrongLastSequenceUnknown:
      return new BatonError('in_flight', text, options)
    case API.notFound:
      return new BatonError('not_found', text, options)
    case API.replicasNeedCluster:
      return new BatonError('unsupported', text, options)
    case API.noPeers:
    case API.streamNotFound:
      // A stream that is being made, or made anew: nothing can be said of what is in it. A cluster that is being formed
      // has no place for one yet.
      return new BatonError('unavailable', text, options)
    case API.storeFailed:
    case API.insufficientResources:
    case API.storageExceeded:
      return new BatonError('full', text, options)
    case API.messageTooLarge:
      return new BatonError('too_large', text, options)
    default:
      return new BatonError(
        isPassing(error.code ?? 0) ? 'unavailable' : error.code === 404 ? 'not_found' : 'invalid',
        text,
        options,
      )
  }
}

/** The server is at fault or busy: offline streams, no quorum, too many requests. */
const isPassing = (status: number): boolean => status === 429 || status >= 500

/**
 * Translates whatever nats.js throws, once, here. `sent` says what silence means: a read that got no answer decided
 * nothing (`unavailable`), a write that got none may be stored or not (`unknown_outcome`).
 */
export function fromNats(error: unknown, what: string, sent: 'read' | 'write' = 'read'): BatonError {
  if (error instanceof BatonError) return error
  if (error instanceof JetStreamApiError) return fromApiError(error.apiError(), what, error)
  if (error instanceof JetStreamError && 'code' in error && error.code === 404) {
    return new BatonError('not_found', `${what}: no such message`, { cause: error })
  }
  const chain = causes(error)
  if (chain.some((one) => one instanceof errors.PermissionViolationError)) {
    return new BatonError('denied', `${what}: this NATS user may not do that`, { cause: error })
  }
  // The client checks the size itself, against what the server said at the connection.
  if (chain.some((one) => one instanceof errors.InvalidArgumentError && /max_payload/.test(one.message))) {
    return new BatonError('too_large', `${what}: larger than this NATS server takes`, { cause: error })
  }
  if (chain.some((one) => one instanceof errors.NoRespondersError)) {
    // Nobody was there to store it; a JetStream election looks like this for seconds.
    return new BatonError('unavailable', `${what}: JetStream does not answer`, { cause: error })
  }
  const code = sent === 'write' ? 'unknown_outcome' : 'unavailable'
  return new BatonError(code, `${what}: no answer from NATS`, { cause: error })
}

/** nats.js wraps what happened in what it was doing, two or three deep. */
function causes(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let one = error; one instanceof Error && chain.length < 8; one = one.cause) chain.push(one)
  return chain
}
