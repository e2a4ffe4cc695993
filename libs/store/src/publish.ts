import type { Msg, MsgHdrs } from '@nats-io/nats-core'
import { fromApiError, fromNats, type ApiError } from './nats-errors.ts'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'

export type Ack = { readonly stream: string; readonly sequence: number; readonly duplicate: boolean }

type AckBody = { stream?: string; seq?: number; duplicate?: boolean; error?: ApiError }

/** Reads the answer of JetStream to a publish, or throws what it says. */
export function readAck(payload: Uint8Array, what: string): Ack {
  const body = JSON.parse(new TextDecoder().decode(payload)) as AckBody
  if (body.error !== undefined) throw fromApiError(body.error, what)
  return { stream: body.stream ?? '', sequence: body.seq ?? 0, duplicate: body.duplicate ?? false }
}

/**
 * A request whose answer is given up the moment the connection is lost: what it did is unknown, and the sooner that is
 * known the sooner a new epoch settles it.
 */
export async function request(
  nats: Nats,
  subject: string,
  payload: Uint8Array | string,
  options: { headers: MsgHdrs; timeout: number },
): Promise<Msg> {
  const lost = Promise.withResolvers<never>()
  const forget = nats.onDisconnect(() => lost.reject(new Error('the connection was lost before an answer came')))
  try {
    return await Promise.race([nats.nc.request(subject, payload, options), lost.promise])
  } finally {
    forget()
  }
}

/**
 * One message into a stream, acknowledged. Headers are sent as given, so expectations and a TTL are whole and
 * visible where they are decided. Throws `conflict`, `in_flight`, `unknown_outcome`, `unavailable`, `full`, `denied`.
 */
export async function publish(
  nats: Nats,
  subject: string,
  payload: Uint8Array | string,
  headers: MsgHdrs,
  timeoutMs: number = REQUEST_TIMEOUT_MS,
): Promise<Ack> {
  const what = `publish to ${subject}`
  try {
    const answer = await request(nats, subject, payload, { headers, timeout: timeoutMs })
    return readAck(answer.data, what)
  } catch (error) {
    throw fromNats(error, what, 'write')
  }
}
