import type { DirectBatchOptions, DirectLastFor } from '@nats-io/jetstream'
import { createInbox } from '@nats-io/nats-core'
import { BatonError } from '@baton/core/errors'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'
import { rawHeaders, type RawHeaders } from './raw-headers.ts'

/** A stored message as a direct get answers it (NATS ADR-31). */
export type DirectMessage = {
  readonly subject: string
  readonly seq: number
  /** How many follow that this answer does not hold. */
  readonly pending: number
  readonly headers: RawHeaders
  readonly data: Uint8Array
}

/** What one replica has answered. */
export type DirectAnswer = {
  readonly messages: readonly DirectMessage[]
  /** How far that replica has come, as a sequence of the stream; null where it found nothing, and does not say. */
  readonly upTo: number | null
}

const END_OF_BATCH = 204
const NOT_FOUND = 404
/** In place of a status: an answer that is none of a direct get. */
const NO_HEADERS = 503

/** As `directGetAnswer`, for callers who prove what they read by what is in it. An empty answer is an empty list. */
export async function directGet(
  nats: Nats,
  stream: string,
  request: DirectBatchOptions | DirectLastFor,
  timeoutMs: number,
): Promise<readonly DirectMessage[]> {
  return (await directGetAnswer(nats, stream, request, timeoutMs)).messages
}

/**
 * A direct get of several messages, collected. Any replica answers, so it may be behind. Throws `unavailable` when the
 * answer is not whole in time.
 *
 * The protocol is spoken here, for nats.js 3.4.0 never ends the subscription of a batch it iterates over.
 */
export async function directGetAnswer(
  nats: Nats,
  stream: string,
  request: DirectBatchOptions | DirectLastFor,
  timeoutMs: number,
): Promise<DirectAnswer> {
  const messages: DirectMessage[] = []
  const whole = Promise.withResolvers<number | null>()
  const inbox = createInbox(nats.inboxPrefix)
  const subscription = nats.nc.subscribe(inbox, {
    callback: (error, message) => {
      if (error !== null) return whole.reject(error)
      const headers = rawHeaders(message)
      const status = headers === null ? NO_HEADERS : headers.status
      if (headers !== null && status === 0) messages.push(stored(headers, message.data))
      else if (status === END_OF_BATCH) whole.resolve(Number(headers?.find('Nats-UpTo-Sequence') ?? 0))
      // After messages it says that one of them could not be read.
      else if (status === NOT_FOUND && messages.length === 0) whole.resolve(null)
      else whole.reject(new BatonError('unavailable', `direct get from ${stream}: NATS answered ${status}`))
    },
  })
  const forget = nats.onDisconnect(() => whole.reject(new Error('the connection was lost')))
  const timer = setTimeout(() => whole.reject(new Error(`no whole answer in ${timeoutMs} ms`)), timeoutMs)
  try {
    nats.nc.publish(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(request), { reply: inbox })
    return { messages, upTo: await whole.promise }
  } catch (error) {
    throw fromNats(error, `direct get from ${stream}`)
  } finally {
    clearTimeout(timer)
    forget()
    subscription.unsubscribe()
  }
}

const stored = (headers: RawHeaders, data: Uint8Array): DirectMessage => ({
  subject: headers.stamped('Nats-Subject') ?? '',
  seq: Number(headers.stamped('Nats-Sequence')),
  pending: Number(headers.stamped('Nats-Num-Pending')),
  headers,
  data,
})
