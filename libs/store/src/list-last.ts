import { DeliverPolicy, type JsMsg } from '@nats-io/jetstream'
import type { MsgHdrs } from '@nats-io/nats-core'
import { BatonError } from '@baton/core/errors'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'

/** The newest message of a subject. */
export type LastMessage = {
  readonly subject: string
  readonly sequence: number
  readonly headers: MsgHdrs | undefined
  readonly data: Uint8Array
  /** Unix ms by the clock of the stream's leader. */
  readonly storedAtMs: number
}

/** How long a listing may stay without a message before it is begun anew. */
const LIST_STALL_MS = 2000
const LIST_ATTEMPTS = 3

/**
 * The newest message of every subject of a stream, through a consumer made for this one reading: no older than what its
 * leader had when it was begun. Throws `unavailable`.
 */
export async function listLast(nats: Nats, stream: string, signal: AbortSignal): Promise<LastMessage[]> {
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted()
    try {
      return await listOnce(nats, stream)
    } catch (error) {
      const known = fromNats(error, `list ${stream}`)
      if (known.code === 'not_found' || attempt >= LIST_ATTEMPTS) throw known
    }
  }
}

async function listOnce(nats: Nats, stream: string): Promise<LastMessage[]> {
  const consumer = await nats.js.consumers.get(stream, { deliver_policy: DeliverPolicy.LastPerSubject })
  const found: LastMessage[] = []
  try {
    const { num_pending: pending } = await consumer.info(true)
    let end = pending === 0 ? await newestIn(nats, stream) : null
    if (end === 0) return found
    const messages = await consumer.consume({ max_messages: 1000, expires: 2 * LIST_STALL_MS })
    const stall = setInterval(() => void messages.close(), LIST_STALL_MS)
    let whole = false
    try {
      for await (const message of messages) {
        stall.refresh()
        found.push(lastMessage(message))
        // What was written anew meanwhile stands behind all the others, and is not counted yet as still to come.
        if (message.info.pending === 0) end ??= await newestIn(nats, stream)
        whole = end !== null && message.seq >= end
        if (whole) break
      }
    } finally {
      clearInterval(stall)
      await messages.close()
    }
    if (!whole) throw new BatonError('unavailable', `listing ${stream} stalled`)
    return found
  } finally {
    await consumer.delete().catch(() => undefined)
  }
}

/** The sequence of the newest message kept, by the word of the stream's leader; 0 where none is. */
async function newestIn(nats: Nats, stream: string): Promise<number> {
  try {
    return (await nats.jsm.streams.getMessage(stream, { last_by_subj: '>' }))?.seq ?? 0
  } catch (error) {
    const known = fromNats(error, `list ${stream}`)
    if (known.code === 'not_found') return 0
    throw known
  }
}

const lastMessage = (message: JsMsg): LastMessage => ({
  subject: message.subject,
  sequence: message.seq,
  headers: message.headers,
  data: message.data,
  storedAtMs: message.time.getTime(),
})
