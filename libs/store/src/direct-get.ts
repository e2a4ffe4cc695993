import type { DirectBatchOptions, DirectLastFor } from '@nats-io/jetstream'
import { createInbox, type Msg } from '@nats-io/nats-core'
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

const END_OF_BATCH = 204
const NOT_FOUND = 404

/**
 * A direct get of several messages, collected. Any replica answers, so it may be behind: callers prove what they
 * read by what is in it. An empty answer is an empty list. Throws `unavailable` when the answer is not whole in time.
 *
 * The protocol is spoken here, for nats.js 3.4.0 never ends the subscription of a batch it iterates over.
 */
export async function directGet(
  nats: Nats,
  stream: string,
  request: DirectBatchOptions | DirectLastFor,
  timeoutMs: number,
): Promise<DirectMessage[]> {
  const found: DirectMessage[] = []
  const whole = Promise.withResolvers<void>()
  const inbox = createInbox(nats.inboxPrefix)
  const subscription = nats.nc.subscribe(inbox, {
    callback: (error, message) => {
      if (error !== null) return whole.reject(error)
      const next = read(message)
      if (typeof next === 'object') return void found.push(next)
      if (next === END_OF_BATCH || next === NOT_FOUND) whole.resolve()
      else whole.reject(new BatonError('unavailable', `direct get from ${stream}: NATS answered ${next}`))
    },
  })
  const forget = nats.onDisconnect(() => whole.reject(new Error('the connection was lost')))
  const timer = setTimeout(() => whole.reject(new Error(`no whole answer in ${timeoutMs} ms`)), timeoutMs)
  try {
    nats.nc.publish(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(request), { reply: inbox })
    await whole.promise
    return found
  } catch (error) {
    throw fromNats(error, `direct get from ${stream}`)
  } finally {
    clearTimeout(timer)
    forget()
    subscription.unsubscribe()
  }
}

/** A stored message, or the status that stands in its place. */
function read(message: Msg): DirectMessage | number {
  const headers = rawHeaders(message)
  if (headers === null || headers.status > 0) return headers?.status ?? 503
  return {
    subject: headers.stamped('Nats-Subject') ?? '',
    seq: Number(headers.stamped('Nats-Sequence')),
    pending: Number(headers.stamped('Nats-Num-Pending')),
    headers,
    data: message.data,
  }
}
