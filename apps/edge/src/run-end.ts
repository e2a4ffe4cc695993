import type { RunEnd } from '@baton/core/event'
import type { Nats } from '@baton/store/connect'
import type { Feed } from './feed.ts'
import type { Hold } from './feeds.ts'
import { Problem } from './problem.ts'
import { readKnown } from './run-view.ts'

export const unknownRun = (run: string): Problem => new Problem(404, 'not_found', `there is no run ${run.slice(0, 64)}`)

/**
 * How a run ended of which the log keeps no event, null while it has not. Throws the 404 for a run that nobody has
 * heard of: neither its log nor, at their leaders, the buckets.
 */
export async function runEnd(nats: Nats, feed: Feed, hold: Hold): Promise<RunEnd | null> {
  const known = await readKnown(nats, feed.run)
  if (known.registration === null && known.status === null && feed.last.index === 0 && feed.head === null) {
    hold.release({ now: true })
    throw unknownRun(feed.run)
  }
  const end = known.status?.state === 'ended' ? known.status.end : null
  if (end === null) return null
  return end.detail === null ? { reason: end.reason } : { reason: end.reason, detail: end.detail }
}
