import { formatPosition, type Position } from '@baton/core/position'
import type { TimedEvent } from '@baton/core/timed'
import { formatOwn } from '@baton/sse/format'
import type { Nats } from '@baton/store/connect'
import type { Losses } from '@baton/store/losses'
import { STREAM } from '@baton/store/names'
import { findLast, positionAtTime, positionBefore, readNextOf, viewStream } from '@baton/store/timed-log'
import type { Asked } from './asked.ts'
import type { Feed } from './feed.ts'
import { resetBlock, type ResetNotice } from './mend.ts'
import type { Start } from './open-stream.ts'
import type { TimedScope } from './timed-scope.ts'

export type TimedFeed = Feed<TimedEvent>

/** Finds where a client of topics or of several runs starts that asks for this. Throws `unavailable`. */
export async function findTimedStart(
  nats: Nats,
  losses: Losses,
  feed: TimedFeed,
  scope: TimedScope,
  asked: Asked,
): Promise<Start> {
  if (asked.kind !== 'id') {
    const told = asked.kind === 'start'
    const missed = told ? await missedBefore(nats, losses, scope) : 0
    return { ...(await opened(feed, await placeOf(nats, feed, scope, asked), missed)), told }
  }
  const { position: at, text } = asked
  if (at === null) {
    return reset(scope, { reason: 'unknown-id', requested: text, place: await now(feed, scope), missed: null })
  }
  if (feed.ring.holds(at)) return opened(feed, at)
  // The log is ahead of what was heard here: a client of another edge may be, too.
  if (at.sequence > feed.last.sequence) await feed.check()
  const verdict = await losses.judge(scope.part, at)
  // What the log has trimmed may be in the ring still.
  const isHere = feed.ring.locate(at) !== null
  if (verdict.valid || (verdict.reason === 'trimmed' && isHere)) return opened(feed, at)
  const place = verdict.reason === 'trimmed' ? await oldestAfter(nats, feed, scope, at) : await now(feed, scope)
  return reset(scope, { ...verdict, requested: text, place })
}

async function opened(feed: TimedFeed, place: Position, missed: number | null = 0): Promise<Start> {
  const id = formatPosition(place)
  const first = await feed.first()
  const sequenceOf = (one: { sequence: number } | null) => (one === null ? null : { sequence: one.sequence })
  const data = { position: id, first: sequenceOf(first), head: sequenceOf(feed.head), missed }
  return { place, block: formatOwn('stream.open', data, { id }), isReset: false, told: false, end: null }
}

/** How many events before the oldest kept are gone; of topics, whose events nobody numbers, 0 or null: none, or who knows. */
async function missedBefore(nats: Nats, losses: Losses, { part }: TimedScope): Promise<number | null> {
  if (part.stream !== STREAM.runs) {
    const view = await viewStream(nats, part.stream)
    return (await losses.lost(part, { sequence: 0, mark: view.createdAtMs }, view)) ? null : 0
  }
  const firsts = await Promise.all(
    part.subjects.map((subject) => readNextOf(nats, { stream: part.stream, subjects: [subject] }, 0)),
  )
  const missed = firsts.map((first) => (first !== null && 'index' in first.event ? first.event.index - 1 : 0))
  return missed.reduce((sum, one) => sum + one, 0)
}

const reset = (scope: TimedScope, notice: ResetNotice): Start => ({
  place: notice.place,
  block: resetBlock(scope.state, notice),
  isReset: true,
  told: true,
  end: null,
})

/** Right before the oldest event kept after a position; as from now on when there is none. */
async function oldestAfter(nats: Nats, feed: TimedFeed, scope: TimedScope, at: Position): Promise<Position> {
  const next = await readNextOf(nats, scope.part, at.sequence)
  return next === null ? now(feed, scope) : scope.before(next)
}

async function placeOf(
  nats: Nats,
  feed: TimedFeed,
  scope: TimedScope,
  asked: Exclude<Asked, { kind: 'id' }>,
): Promise<Position> {
  const { part } = scope
  switch (asked.kind) {
    case 'now':
      return now(feed, scope)
    case 'start':
      return feed.head === null ? feed.last : feed.oldest()
    case 'index':
      if (asked.index > feed.last.sequence) return now(feed, scope)
      return notAfter(await positionBefore(nats, part.stream, Math.max(1, asked.index)), await now(feed, scope))
    case 'time':
      return notAfter(await positionAtTime(nats, part.stream, asked.atMs), await now(feed, scope))
    case 'last': {
      if (asked.count === 0) return now(feed, scope)
      const found = await findLast(nats, part, asked.count, await viewStream(nats, part.stream))
      return found === null ? now(feed, scope) : positionBefore(nats, part.stream, found)
    }
  }
}

const notAfter = (one: Position, other: Position): Position => (one.sequence > other.sequence ? other : one)

/** Where the feed stands; of runs that have all ended, right before the last end: whoever opens them is to get it. */
async function now(feed: TimedFeed, scope: TimedScope): Promise<Position> {
  const { head } = feed
  return head !== null && scope.isOver(head) ? scope.before(head) : feed.last
}
