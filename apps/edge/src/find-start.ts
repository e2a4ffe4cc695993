import { END, readEnd, type RunEnd, type StoredEvent } from '@baton/core/event'
import { formatPosition, type Position } from '@baton/core/position'
import { runOrder } from '@baton/core/splice'
import { formatOwn } from '@baton/sse/format'
import type { Nats } from '@baton/store/connect'
import { findBefore, isKept, judgePosition, readNext, readStream } from '@baton/store/read-log'
import type { RunAsked } from './asked.ts'
import type { Feed } from './feed.ts'
import { mend, resetBlock, stateOfRun, type ResetNotice } from './mend.ts'

/** Where a client starts, decided before its status line. */
export type RunStart =
  /** It has the end of the run: there is nothing more, ever. */
  | { readonly kind: 'over' }
  | {
      readonly kind: 'at'
      /** The place it starts after. */
      readonly place: Position
      /** `stream.open` or `stream.reset`: the first frame, which gives it a position. */
      readonly block: string
      readonly reset: ResetNotice | null
      /** How the run ended, where the log no longer holds the event that says so. */
      readonly lostEnd: RunEnd | null
    }

type RunFeed = Feed<StoredEvent>

/**
 * Finds where a client starts that asks for this. `lostEnd`: how the run ended according to its status, when its log
 * is empty. Throws `unavailable`.
 */
export async function findStart(
  nats: Nats,
  feed: RunFeed,
  asked: RunAsked,
  lostEnd: RunEnd | null,
  signal: AbortSignal,
): Promise<RunStart> {
  if (asked.kind === 'id') return startAfter(nats, feed, asked, lostEnd, signal)
  const { place, missed } = await placeOf(nats, feed, asked)
  return opened(feed, place, missed, lostEnd)
}

const toPlace = (at: Position | null) => (at === null ? null : { sequence: at.sequence, index: at.mark })

async function opened(feed: RunFeed, place: Position, missed: number, lostEnd: RunEnd | null): Promise<RunStart> {
  const id = formatPosition(place)
  const head = feed.head === null ? null : { sequence: feed.head.sequence, index: feed.head.index }
  const data = { position: id, first: toPlace(await feed.first()), head, missed }
  return {
    kind: 'at',
    place,
    block: formatOwn('stream.open', data, { id }),
    reset: null,
    lostEnd: stillLost(feed, place, lostEnd),
  }
}

async function startAfter(
  nats: Nats,
  feed: RunFeed,
  asked: RunAsked & { kind: 'id' },
  lostEnd: RunEnd | null,
  signal: AbortSignal,
): Promise<RunStart> {
  const { position: at, text } = asked
  if (at === null) return reset(nats, feed, { reason: 'unknown-id', requested: text, missed: null }, null, lostEnd)
  if (feed.ring.locate(at) === null) {
    const verdict = await judgePosition(nats, feed.scope.name, at, signal)
    if (!verdict.valid) {
      // Right before a hole in the middle of the log: what lies behind it is all that is missing.
      if (await isKept(nats, feed.scope.name, at)) return behindHole(nats, feed, at, lostEnd)
      return reset(nats, feed, { ...verdict, requested: text }, at, lostEnd)
    }
    // Where no checkpoint is left either, the log knows no better than that the run has not begun.
    if (await isGone(nats, feed, at)) {
      return reset(nats, feed, { reason: 'trimmed', requested: text, missed: null }, at, lostEnd)
    }
    // The log is ahead of what was heard here: a client of another edge may be, too.
    if (at.mark > feed.last.mark) await feed.refill((last) => last.mark >= at.mark)
  }
  if (isOver(feed, at, lostEnd)) return { kind: 'over' }
  return opened(feed, at, 0, lostEnd)
}

/** Events that have come meanwhile are served, and say themselves how the run ended: not to who starts behind it. */
function stillLost({ head }: RunFeed, place: Position, lostEnd: RunEnd | null): RunEnd | null {
  if (head === null) return lostEnd
  return head.type === END && place.sequence >= head.sequence ? readEnd(head.data) : null
}

const isOver = (feed: RunFeed, at: Position, lostEnd: RunEnd | null): boolean =>
  feed.head === null ? lostEnd !== null : feed.head.type === END && at.mark === feed.head.index

/** The client goes on with the event behind the hole it stands before. */
async function behindHole(nats: Nats, feed: RunFeed, at: Position, lostEnd: RunEnd | null): Promise<RunStart> {
  const { block, reset } = await mend(nats, feed.scope.name, at)
  return { kind: 'at', place: reset.place, block, reset, lostEnd: stillLost(feed, reset.place, lostEnd) }
}

/** The client goes on with the oldest event there is. */
async function reset(
  nats: Nats,
  feed: RunFeed,
  notice: Omit<ResetNotice, 'place'>,
  at: Position | null,
  lostEnd: RunEnd | null,
): Promise<RunStart> {
  const place = await oldest(nats, feed)
  // What was trimmed since the verdict is missing as well.
  const missed = notice.missed === null || at === null ? null : place.mark - at.mark
  const full = { ...notice, missed, place }
  return {
    kind: 'at',
    place,
    block: resetBlock(stateOfRun(feed.scope.name), full),
    reset: full,
    lostEnd: stillLost(feed, place, lostEnd),
  }
}

/** Of an ended run whose log was purged since, this is before what the ring has; where that is empty, at the end. */
async function oldest(nats: Nats, feed: RunFeed): Promise<Position> {
  if (feed.head === null) return feed.last
  const place = await feed.oldest()
  return (await isGone(nats, feed, place)) ? feed.ring.base : place
}

/**
 * Has an ended run, purged since, nothing after a place before its end, in the log or held here? Who starts there would
 * wait for ever. It is the word of a leader that has got as far as that end. Throws `unavailable`.
 */
async function isGone(nats: Nats, { head, ring, scope }: RunFeed, place: Position): Promise<boolean> {
  if (head?.type !== END || place.sequence >= head.sequence || ring.locate(place) !== null) return false
  if ((await readNext(nats, scope.name, place.sequence, 'any')) !== null) return false
  if ((await readNext(nats, scope.name, place.sequence, 'leader')) !== null) return false
  return (await readStream(nats)).lastSequence >= head.sequence
}

/** The place of a start that is no id, and how many events before the oldest kept are gone for who asks for all. */
async function placeOf(
  nats: Nats,
  feed: RunFeed,
  asked: Exclude<RunAsked, { kind: 'id' }>,
): Promise<{ place: Position; missed: number }> {
  const { head } = feed
  if (asked.kind === 'start') {
    const place = await oldest(nats, feed)
    return { place, missed: place.mark }
  }
  if (head === null) return { place: feed.last, missed: 0 }
  const now = await nowOf(feed, head)
  const wanted =
    asked.kind === 'now' ? now.mark + 1 : asked.kind === 'index' ? asked.index : head.index + 1 - asked.count
  if (wanted > now.mark) return { place: now, missed: 0 }
  const first = await feed.first()
  const low = toPlace(first)
  const found = low !== null && wanted > low.index ? await findBefore(nats, feed.scope.name, wanted, low, head) : null
  if (found !== null) return { place: runOrder.position(found), missed: 0 }
  return { place: await oldest(nats, feed), missed: 0 }
}

/** Where the feed stands; of an ended run, right before its end, while the ring or the log has that. */
async function nowOf(feed: RunFeed, head: StoredEvent): Promise<Position> {
  if (head.type !== END) return feed.last
  const before = { sequence: head.sequence - 1, mark: head.index - 1 }
  return feed.ring.locate(before) !== null || (await feed.scope.first()) !== null ? before : feed.last
}
