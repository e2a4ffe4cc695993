import type { RunEnd, StoredEvent } from '@baton/core/event'
import type { Feed } from './feed.ts'
import type { Known } from './run-view.ts'

/**
 * How a run ended, by its status, of which the log keeps no event. Null while it has not ended, and where the log has
 * events, for they say so themselves. That it has none is the word of its leader: this feed may have been cut off
 * while they were stored. Throws `unavailable`.
 */
export async function lostEnd(feed: Feed<StoredEvent>, { status }: Known): Promise<RunEnd | null> {
  if (status?.state !== 'ended' || status.end === null) return null
  await feed.confirm()
  if (feed.head !== null) return null
  const { reason, detail } = status.end
  return detail === null ? { reason } : { reason, detail }
}
