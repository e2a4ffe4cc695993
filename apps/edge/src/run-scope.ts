import { END, readEnd, type RunEnd, type StoredEvent } from '@baton/core/event'
import { formatPosition, type Position } from '@baton/core/position'
import { startOf } from '@baton/core/servable'
import { runOrder } from '@baton/core/splice'
import type { Nats } from '@baton/store/connect'
import { followLive } from '@baton/store/live'
import { STREAM } from '@baton/store/names'
import { endsBefore, readExtent, readHead, readNext, readStream } from '@baton/store/read-log'
import { replayRun } from '@baton/store/replay'
import { EventEntry } from './entry.ts'
import type { Feed } from './feed.ts'
import { mend, resetBlock, stateOfRun } from './mend.ts'
import type { Scope } from './scope.ts'

const { position } = runOrder

/** How the run of a feed ended, once it has. */
export const endOf = ({ head }: Feed<StoredEvent>): RunEnd | null => (head?.type === END ? readEnd(head.data) : null)

/** One run. */
export const runScope = (nats: Nats, run: string): Scope<StoredEvent> => ({
  key: `run ${run}`,
  name: run,
  runs: [run],
  marks: 'indexes',
  order: runOrder,
  listen: (hear) => ({ ...followLive(nats, run, hear), from: () => undefined }),
  async stand() {
    const seen = await readExtent(nats, run, 'any')
    // Replicas answer the three parts, and one that has no event yet beside a checkpoint of another would hide events.
    const { first, head, checkpoint } = seen.head === null ? await readExtent(nats, run, 'leader') : seen
    return {
      last: position(head ?? checkpoint ?? { sequence: 0, index: 0 }),
      head,
      first: first === null ? null : position(first),
    }
  },
  head: () => readHead(nats, run, 'leader'),
  async first() {
    const first = await readNext(nats, run, 0, 'any')
    return first === null ? null : position(first)
  },
  pages: (after, _told, signal) => replayRun(nats, run, after?.sequence ?? 0, signal),
  // The index says it all.
  isQuiet: async () => false,
  async gone(last, to) {
    if ((await readNext(nats, run, last.sequence, 'leader')) !== null) return null
    if ((await readStream(nats)).lastSequence < to.sequence) return null
    const lost = { reason: 'trimmed', requested: formatPosition(last), place: to, missed: to.mark - last.mark } as const
    return { place: to, block: resetBlock(stateOfRun(run), lost), until: to.sequence }
  },
  before: async ({ sequence, index }) => ({ sequence: sequence - 1, mark: index - 1 }),
  async mend(last) {
    const { place, block } = await mend(nats, run, last)
    return { place, block, until: place.sequence }
  },
  async look(last) {
    const head = await readHead(nats, run, 'any')
    if (head !== null && head.sequence > last.sequence) return { kind: 'more', reached: upTo(head) }
    if (head?.sequence === last.sequence || last.sequence === 0) return { kind: 'same', passed: null }
    return (await endsBefore(nats, STREAM.runs, last.sequence)) ? { kind: 'anew' } : { kind: 'same', passed: null }
  },
  async anew(last) {
    const extent = await readExtent(nats, run, 'leader')
    const place = position(startOf(extent))
    const requested = formatPosition(last)
    const block = resetBlock(stateOfRun(run), { reason: 'recreated', requested, place, missed: null })
    const { head } = extent
    return {
      place,
      block,
      tail: head === null ? { kind: 'same', passed: null } : { kind: 'more', reached: upTo(head) },
    }
  },
  entry: (event) => new EventEntry(event),
  isOver: (head) => head?.type === END,
})

const upTo =
  ({ index }: StoredEvent) =>
  (last: Position): boolean =>
    last.mark >= index
