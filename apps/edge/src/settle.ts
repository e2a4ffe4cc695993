import { END, type RunEnd } from '@baton/core/event'
import type { Position } from '@baton/core/position'
import type { Place } from '@baton/core/servable'
import { formatOwn } from '@baton/sse/format'
import type { Nats } from '@baton/store/connect'
import { findBefore, isKept, judgePosition } from '@baton/store/read-log'
import type { Asked } from './asked.ts'
import type { Feed } from './feed.ts'
import { mend, position, resetBlock, type ResetNotice } from './mend.ts'

/** Where a client starts, decided before its status line. */
export type Settled =
  /** It has the end of the run: there is nothing more, ever. */
  | { readonly kind: 'over' }
  | {
      readonly kind: 'at'
      /** The place it starts after. */
      readonly place: Place
      /** `stream.open` or `stream.reset`: the first frame, which gives it a position. */
      readonly block: string
      readonly reset: ResetNotice | null
      /** How the run ended, where the log no longer holds the event that says so. */
      readonly lostEnd: RunEnd | null
    }

/**
 * Finds where a client starts that asks for this. `lostEnd`: how the run ended according to its status, when its log
 * is empty. Throws `unavailable`.
 */
export async function settle(
  nats: Nats,
  feed: Feed,
  asked: Asked,
  lostEnd: RunEnd | null,
  signal: AbortSignal,
): Promise<Settled> {
  if (asked.kind === 'id') return settleId(nats, feed, asked, lostEnd, signal)
  const { place, missed } = await placeOf(nats, feed, asked)
  return opened(feed, place, missed, lostEnd)
}

async function opened(feed: Feed, place: Place, missed: number, lostEnd: RunEnd | null): Promise<Settled> {
  const id = position(place)
  const head = feed.head === null ? null : { sequence: feed.head.sequence, index: feed.head.index }
  const data = { position: id, first: await feed.first(), head, missed }
  const block = formatOwn('stream.open', data, { id })
  return { kind: 'at', place, block, reset: null, lostEnd: stillLost(feed, lostEnd) }
}

async function settleId(
  nats: Nats,
  feed: Feed,
  asked: Asked & { kind: 'id' },
  lostEnd: RunEnd | null,
  signal: AbortSignal,
): Promise<Settled> {
  const { position: at, text } = asked
  if (at === null) return reset(feed, { reason: 'unknown-id', requested: text, missed: null }, null, lostEnd)
  if (feed.ring.locate(at) === null) {
    const verdict = await judgePosition(nats, feed.run, at, signal)
    if (!verdict.valid) {
      // Right before a hole in the middle of the log: what lies behind it is all that is missing.
      if (await isKept(nats, feed.run, at)) return behindHole(nats, feed, at, lostEnd)
      return reset(feed, { ...verdict, requested: text }, at, lostEnd)
    }
    // The log is ahead of what was heard here: a client of another edge may be, too.
    if (at.mark > feed.last.index) await feed.refill(at.mark)
  }
  if (isOver(feed, at, lostEnd)) return { kind: 'over' }
  return opened(feed, { sequence: at.sequence, index: at.mark }, 0, lostEnd)
}

/** Events have come meanwhile: they are served, and say themselves how the run ended. */
const stillLost = (feed: Feed, lostEnd: RunEnd | null): RunEnd | null => (feed.head === null ? lostEnd : null)

const isOver = (feed: Feed, at: Position, lostEnd: RunEnd | null): boolean =>
  feed.head === null ? lostEnd !== null : feed.head.type === END && at.mark === feed.head.index

/** The client goes on with the event behind the hole it stands before. */
async function behindHole(nats: Nats, feed: Feed, at: Position, lostEnd: RunEnd | null): Promise<Settled> {
  const { block, reset } = await mend(nats, feed.run, { sequence: at.sequence, index: at.mark })
  return { kind: 'at', place: reset.place, block, reset, lostEnd: stillLost(feed, lostEnd) }
}

/** The client goes on with the oldest event there is. */
async function reset(
  feed: Feed,
  notice: Omit<ResetNotice, 'place'>,
  at: Position | null,
  lostEnd: RunEnd | null,
): Promise<Settled> {
  const place = await oldest(feed)
  // What was trimmed since the verdict is missing as well.
  const missed = notice.missed === null || at === null ? null : place.index - at.mark
  const full = { ...notice, missed, place }
  return { kind: 'at', place, block: resetBlock(feed.run, full), reset: full, lostEnd: stillLost(feed, lostEnd) }
}

const oldest = async (feed: Feed): Promise<Place> => (feed.head === null ? feed.last : feed.oldest())

/** The place of a start that is no id, and how many events before the oldest kept are gone for who asks for all. */
async function placeOf(
  nats: Nats,
  feed: Feed,
  asked: Exclude<Asked, { kind: 'id' }>,
): Promise<{ place: Place; missed: number }> {
  const { head } = feed
  if (asked.kind === 'start') {
    const place = await oldest(feed)
    return { place, missed: place.index }
  }
  if (head === null) return { place: feed.last, missed: 0 }
  const now = head.type === END ? { sequence: head.sequence - 1, index: head.index - 1 } : feed.last
  const wanted =
    asked.kind === 'now' ? now.index + 1 : asked.kind === 'index' ? asked.index : head.index + 1 - asked.count
  if (wanted > now.index) return { place: now, missed: 0 }
  const first = await feed.first()
  const found = first !== null && wanted > first.index ? await findBefore(nats, feed.run, wanted, first, head) : null
  if (found !== null) return { place: found, missed: 0 }
  return { place: await oldest(feed), missed: 0 }
}
