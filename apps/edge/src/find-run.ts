import type { Nats } from '@baton/store/connect'
import type { StoredEvent } from '@baton/core/event'
import type { Hold } from './feeds.ts'
import { Problem } from './problem.ts'
import { readKnown, type Known } from './run-view.ts'

export const unknownRun = (run: string): Problem => new Problem(404, 'not_found', `there is no run ${run.slice(0, 64)}`)

/**
 * What the buckets say of a run whose feed has no event. Throws the 404 for a run that nobody has heard of: neither
 * the buckets nor the log, at their leaders.
 */
export async function findRun(nats: Nats, hold: Hold<StoredEvent>): Promise<Known> {
  const { feed } = hold
  const { name: run } = feed.scope
  const known = await readKnown(nats, run)
  if (known.registration !== null || known.status !== null) return known
  if (feed.last.mark === 0) await feed.confirm()
  if (feed.last.mark > 0) return known
  hold.release({ now: true })
  throw unknownRun(run)
}
