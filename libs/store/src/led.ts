import { BatonError } from '@baton/core/errors'
import type { StreamInfo } from '@nats-io/jetstream'
import { nanos } from '@nats-io/nats-core'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'

/**
 * The replicas of a stream that have not heard from their leader for 4 s elect another (nats-server, raft.go:
 * minElectionTimeout). A leader that hears them is heard by them, and is asked at least every second.
 */
const HEARD_MS = 3000

/**
 * Has the word of whoever answered for a stream to be believed? While there is no leader any replica answers, and for
 * up to 20 s after it was cut off from the others a leader does not know that they have another: either may be behind.
 */
export function isLed({ cluster, config }: Pick<StreamInfo, 'cluster' | 'config'>): boolean {
  if (config.num_replicas <= 1) return true
  if (cluster?.leader === undefined || cluster.leader === '') return false
  // 0 is what is said of one that was never heard.
  const heard = (cluster.replicas ?? []).filter(({ active }) => active > 0 && active < nanos(HEARD_MS))
  return 2 * (heard.length + 1) > config.num_replicas
}

/** The word of a stream's leader. Throws `unavailable` where nobody leads it, or perhaps somebody else. */
export async function readLedInfo(nats: Nats, stream: string, subjectsFilter?: string): Promise<StreamInfo> {
  try {
    const options = subjectsFilter === undefined ? {} : { subjects_filter: subjectsFilter }
    const info = await nats.jsm.streams.info(stream, options)
    if (isLed(info)) return info
  } catch (error) {
    throw fromNats(error, `look at stream ${stream}`)
  }
  throw new BatonError('unavailable', `stream ${stream} has no leader that the others still follow`)
}
