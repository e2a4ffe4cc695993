import type { DirectBatchOptions, DirectLastFor, StoredMsg } from '@nats-io/jetstream'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'

/**
 * A direct get of several messages, collected. Any replica answers, so it may be behind: callers prove what they
 * read by what is in it. An empty answer is an empty list. Throws `unavailable` when the answer is not whole in time.
 *
 * nats.js 3.4.0 keeps the subscription of the iterator form for ever; the callback form ends it, hence this wrapper.
 */
export async function directGet(
  nats: Nats,
  stream: string,
  request: DirectBatchOptions | DirectLastFor,
  timeoutMs: number,
): Promise<StoredMsg[]> {
  const what = `direct get from ${stream}`
  const found: StoredMsg[] = []
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const callback = (done: { err?: Error } | null, message: StoredMsg) => {
    if (done === null) found.push(message)
    else if (done.err === undefined) resolve()
    else reject(done.err)
  }
  const reading = 'multi_last' in request ? 'getLastMessagesFor' : 'getBatch'
  const iterator = await nats.jsm.direct[reading](stream, { ...request, callback } as never)
  const timer = setTimeout(() => reject(new Error(`no whole answer in ${timeoutMs} ms`)), timeoutMs)
  try {
    await promise
    return found
  } catch (error) {
    const known = fromNats(error, what)
    if (known.code === 'not_found') return []
    throw known
  } finally {
    clearTimeout(timer)
    ;(iterator as unknown as { stop(): void }).stop()
  }
}
