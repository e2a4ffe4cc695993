import type { Consumer, ConsumerMessages, JsMsg } from '@nats-io/jetstream'
import { nuid } from '@nats-io/nats-core'
import { BatonError } from '@baton/core/errors'
import type { StoredEvent } from '@baton/core/event'
import { decodeEvent } from './codec.ts'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'
import { runSubject, STREAM } from './names.ts'

/**
 * A page to which nothing was added for so long is over, by our own clock: an ordered consumer of nats.js whose node is
 * gone asks for it for ever, and one whose end of a page was lost on the way waits for it.
 */
const STALL_MS = 2000
const PAGE_MESSAGES = 100
/** Bounds what one replay holds in memory, with the number of messages. */
const PAGE_BYTES = 2 * 2 ** 20
/** A page that could hold nothing for a single message would never come. */
const HEADROOM_BYTES = 64 * 1024
const ATTEMPTS = 3
/** What the server keeps of a consumer whose edge was killed. */
const INACTIVE_MS = 30_000

/** What is read of a stream: the messages under these subjects, which may hold wildcards. */
export type Part = { readonly stream: string; readonly subjects: readonly string[] }

/**
 * The run's events after a stream sequence, oldest first, page by page, up to where the log stands when the last page
 * is read.
 */
export async function* replayRun(
  nats: Nats,
  run: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredEvent[], void, void> {
  const part = { stream: STREAM.runs, subjects: [runSubject(run)] }
  for await (const page of replayPart(nats, part, after, signal)) {
    yield page.flatMap((message) => decodeEvent(run, message.seq, message) ?? [])
  }
}

/**
 * The messages of a part after a stream sequence, oldest first, page by page, up to where the log stands when the last
 * page is read. A page is read when the caller asks for it, so a slow caller holds one page and nothing piles up.
 * Ending the generator deletes its consumer. Throws `unavailable` after three silent attempts in a row.
 */
export async function* replayPart(
  nats: Nats,
  part: Part,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<readonly JsMsg[], void, void> {
  let last = after
  for (let failures = 0; ; failures++) {
    signal.throwIfAborted()
    if (failures >= ATTEMPTS) throw new BatonError('unavailable', `the replay of ${part.subjects.join(' ')} stalled`)
    let consumer: Consumer | null = null
    try {
      consumer = await openConsumer(nats, part, last + 1)
      let { num_pending: pending } = await consumer.info(true)
      while (pending > 0) {
        const page = await readPage(nats, consumer, signal)
        const end = page.at(-1)
        // A silent consumer, or one that jumped: a new one goes on where this one stood.
        if (end === undefined) break
        failures = 0
        last = end.seq
        pending = end.info.pending
        yield page
      }
      if (pending === 0) return
    } catch (error) {
      signal.throwIfAborted()
      if (failures + 1 >= ATTEMPTS) throw fromNats(error, `replay ${part.subjects.join(' ')}`)
    } finally {
      // Nobody waits for this: a consumer that stays behind deletes itself.
      void consumer?.delete().catch(() => undefined)
    }
  }
}

const openConsumer = (nats: Nats, { stream, subjects }: Part, from: number): Promise<Consumer> =>
  nats.js.consumers.get(stream, {
    name_prefix: `baton-replay-${nuid.next()}`,
    filter_subjects: subjects.length === 1 ? (subjects[0] as string) : [...subjects],
    opt_start_seq: from,
    inactive_threshold: INACTIVE_MS,
  })

/** The next messages, at least one unless the consumer stays silent. */
async function readPage(nats: Nats, consumer: Consumer, signal: AbortSignal): Promise<JsMsg[]> {
  const page: JsMsg[] = []
  const bytes = Math.max(PAGE_BYTES, (nats.nc.info?.max_payload ?? 0) + HEADROOM_BYTES)
  const messages: ConsumerMessages = await consumer.fetch({ max_bytes: bytes, expires: STALL_MS })
  const stop = () => void messages.close()
  signal.addEventListener('abort', stop, { once: true })
  const stalled = setTimeout(stop, STALL_MS)
  try {
    for await (const message of messages) {
      page.push(message)
      if (message.info.pending === 0 || page.length >= PAGE_MESSAGES) break
      stalled.refresh()
    }
  } catch (error) {
    // The server ends a page that has no room for the next message with an error; what came before it is whole.
    if (page.length === 0) throw error
  } finally {
    clearTimeout(stalled)
    signal.removeEventListener('abort', stop)
    await messages.close()
  }
  signal.throwIfAborted()
  return page
}
