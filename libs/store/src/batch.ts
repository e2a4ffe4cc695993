import { nuid, type MsgHdrs } from '@nats-io/nats-core'
import { BatonError } from '@baton/core/errors'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'
import { readAck, request, type Ack } from './publish.ts'

export type BatchMessage = { readonly subject: string; readonly payload: Uint8Array; readonly headers: MsgHdrs }

/** What one atomic batch may hold (NATS ADR-50); the bytes are our bound, for the server stages a batch in memory. */
export const BATCH_MESSAGES = 1000
export const BATCH_BYTES = 2 ** 20

/** The server missed a message of the batch, or has too many open (50 per stream): nothing of it is stored. */
const ABANDONED = new Set([10175, 10176])

/**
 * Stores messages all or none, in one round trip: each carries the batch's id and its place, the last one asks for
 * the commit. Expectations belong into the headers of the first. The publisher of nats.js drops them and masks the
 * server's answer, so the protocol is spoken here.
 * Throws as `publish` does, and `in_flight` when the server gave the batch up.
 */
export async function publishBatch(nats: Nats, messages: readonly BatchMessage[], timeoutMs: number): Promise<Ack> {
  const last = messages.at(-1)
  if (last === undefined || messages.length > BATCH_MESSAGES) {
    throw new BatonError('invalid', `a batch holds 1 to ${BATCH_MESSAGES} messages, not ${messages.length}`)
  }
  const id = nuid.next()
  const what = `batch of ${messages.length} to ${last.subject}`
  try {
    messages.forEach(({ headers }, at) => {
      headers.set('Nats-Batch-Id', id)
      headers.set('Nats-Batch-Sequence', String(at + 1))
    })
    last.headers.set('Nats-Batch-Commit', '1')
    for (const { subject, payload, headers } of messages.slice(0, -1)) nats.nc.publish(subject, payload, { headers })
    const answer = await request(nats, last.subject, last.payload, { headers: last.headers, timeout: timeoutMs })
    return readAck(answer.data, what)
  } catch (error) {
    const known = fromNats(error, what, 'write')
    const { err_code: code } = (known.cause ?? {}) as { err_code?: number }
    if (code !== undefined && ABANDONED.has(code)) throw new BatonError('in_flight', known.message, { cause: error })
    throw known
  }
}
