import { BatonError } from '@baton/core/errors'
import { REQUEST_TIMEOUT_MS, type Nats } from './connect.ts'
import { directGetAnswer, type DirectMessage } from './direct-get.ts'
import { readLedInfo } from './led.ts'
import { fromNats } from './nats-errors.ts'
import { rest } from './rest.ts'

/** So many subjects are asked for at once; the server allows 1,024 messages in an answer. */
const SUBJECTS_AT_ONCE = 250
const ATTEMPTS = 3
const AGAIN_MS = 200

/**
 * The newest message of every subject of a stream, in their order. The leader says which subjects there are, and a replica
 * that has come as far reads each as it stands. A consumer would be simpler, but it misses what is being written anew:
 * between the removal of an old message and the counting of the new one nats-server 2.15.2 says that nothing is pending.
 * Throws `unavailable`.
 */
export async function listLast(nats: Nats, stream: string, signal: AbortSignal): Promise<DirectMessage[]> {
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted()
    try {
      return await listOnce(nats, stream)
    } catch (error) {
      const known = fromNats(error, `list ${stream}`)
      if (known.code === 'not_found' || attempt >= ATTEMPTS) throw known
    }
    await rest(AGAIN_MS, signal)
  }
}

async function listOnce(nats: Nats, stream: string): Promise<DirectMessage[]> {
  const { state } = await readLedInfo(nats, stream, '>')
  let wanted = Object.keys(state.subjects ?? {})
  const found: DirectMessage[] = []
  while (wanted.length > 0) {
    const asked = wanted.slice(0, SUBJECTS_AT_ONCE)
    const request = { multi_last: asked }
    const { messages, upTo } = await directGetAnswer(nats, stream, request, 5 * REQUEST_TIMEOUT_MS)
    // Whoever found nothing at all may have expired keys, or be far behind: the next look tells.
    if (upTo === null || upTo < state.last_seq) throw new BatonError('unavailable', `a replica of ${stream} is behind`)
    found.push(...messages)
    const had = new Set(messages.map(({ subject }) => subject))
    // An answer has an end in bytes, too; what it leaves out is asked for again, what has gone meanwhile is not.
    const left = (messages.at(-1)?.pending ?? 0) > 0 ? asked.filter((subject) => !had.has(subject)) : []
    wanted = [...left, ...wanted.slice(SUBJECTS_AT_ONCE)]
  }
  return found.sort((one, other) => one.seq - other.seq)
}
