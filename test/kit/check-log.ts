import { END, GAP, type StoredEvent } from '@baton/core/event'
import type { Emitted, JobEmission, RunHistory, Violation } from './history.ts'

/** A longer list says nothing more: one lost event makes every later one look wrong. */
const MAX_COMPLAINTS = 20

/**
 * I1: the stored events of a run are what its agents emitted, in order per job; the index is dense; what an agent
 * that cannot replay lost is covered by exactly one `stream.gap`, and lies between the last stored event and the
 * first event of a later connection; `stream.end` is last, once.
 */
export function checkLog(history: RunHistory): Violation[] {
  const events = history.log.flatMap((entry) => (entry.kind === 'event' ? [entry.event] : []))
  const complaints = [
    ...indexComplaints(events),
    ...endComplaints(events, history.over),
    ...history.jobs.flatMap((job) => jobComplaints(job, events, history.over)),
    ...strangers(events, history.jobs),
  ]
  return complaints.slice(0, MAX_COMPLAINTS).map((what) => ({ invariant: 'I1', run: history.run, what }))
}

const indexComplaints = (events: readonly StoredEvent[]): string[] =>
  events.flatMap((event, at) => {
    const wanted = (events[at - 1]?.index ?? 0) + 1
    return event.index === wanted
      ? []
      : [`sequence ${event.sequence} has index ${event.index}, after ${wanted - 1} it must be ${wanted}`]
  })

function endComplaints(events: readonly StoredEvent[], over: boolean): string[] {
  const at = events.findIndex((event) => event.type === END)
  if (at === -1) return over ? ['the run is over, but its log has no stream.end'] : []
  const later = events.slice(at + 1)
  return later.length === 0 ? [] : [`${later.length} events after stream.end, the first has index ${later[0]?.index}`]
}

const strangers = (events: readonly StoredEvent[], jobs: readonly JobEmission[]): string[] =>
  events
    .filter((event) => event.type !== END && !jobs.some(({ job }) => job === event.job))
    .map((event) => `index ${event.index} belongs to the job ${String(event.job)}, which nobody registered`)

/** Walks one job's stored events along its emission. */
function jobComplaints(job: JobEmission, all: readonly StoredEvent[], over: boolean): string[] {
  const complaints: string[] = []
  const say = (event: StoredEvent, what: string) => complaints.push(`job ${job.job}, index ${event.index}: ${what}`)
  let next = 0
  let whole = true
  let ordinal = 0
  let gapBefore = false
  for (const event of all.filter((one) => one.job === job.job)) {
    if (event.type === GAP) {
      if (gapBefore) say(event, 'a second stream.gap in a row')
      if (job.replays === 'all' && reasonOf(event) !== 'too-large')
        say(event, `a stream.gap, but the agent can replay: ${event.data}`)
      gapBefore = true
      continue
    }
    const place = find(job.events, event, next)
    if (place === null) {
      const earlier = find(job.events.slice(0, next), event, 0)
      say(
        event,
        earlier === null
          ? `was never emitted: ${brief(event.data)}`
          : `emitted event ${earlier + 1} is stored again, ${next} were already`,
      )
      gapBefore = false
      continue
    }
    if (place > next) {
      whole = false
      const startsConnection = job.connections.some(({ firstEvent }) => firstEvent === place)
      // What was emitted before anybody ever listened is no loss of ours, and none that could be known.
      const unheard = next === 0 && job.replays !== 'all' && startsConnection
      const hole = `emitted events ${next + 1} to ${place} are missing`
      if (!gapBefore && !unheard) say(event, `${hole}, and no stream.gap covers them`)
      else if (job.replays === 'none' && !startsConnection) {
        say(event, `${hole}; the hole goes on past the first event of the next connection`)
      }
    }
    const idComplaint = upstreamIdComplaint(job.events, place, event, whole)
    if (idComplaint !== null) say(event, idComplaint)
    if (event.ordinal === null || event.ordinal <= ordinal)
      say(event, `ordinal ${String(event.ordinal)} after ${ordinal}`)
    else if (job.replays === 'all' && event.ordinal !== place + 1)
      say(event, `ordinal ${event.ordinal}, emitted as ${place + 1}`)
    ordinal = event.ordinal ?? ordinal
    gapBefore = false
    next = place + 1
  }
  // An agent that cannot replay may have lost its last events to a reconnect that then ended the job.
  if (over && job.replays === 'all' && next < job.events.length) {
    complaints.push(
      `job ${job.job}: of ${job.events.length} emitted events only the first ${next} are stored, and the run is over`,
    )
  }
  return complaints
}

/** The place, at or after `from`, of the emitted event with the content of a stored one. */
function find(events: readonly Emitted[], stored: StoredEvent, from: number): number | null {
  for (let at = from; at < events.length; at++) {
    if (events[at]?.data === stored.data && events[at]?.name === stored.name) return at
  }
  return null
}

function upstreamIdComplaint(
  events: readonly Emitted[],
  place: number,
  stored: StoredEvent,
  whole: boolean,
): string | null {
  let carrier = place
  while (carrier >= 0 && events[carrier]?.id === null) carrier--
  const id = carrier < 0 ? null : (events[carrier]?.id ?? null)
  const offset = carrier < 0 ? null : place - carrier
  // Past a hole the relay cannot know which ids the lost events set; what an event carries itself it knows.
  if (!whole && offset !== 0) return null
  if (stored.upstreamId !== id)
    return `upstream id ${JSON.stringify(stored.upstreamId)}, in force is ${JSON.stringify(id)}`
  return stored.upstreamOffset === offset
    ? null
    : `upstream offset ${String(stored.upstreamOffset)}, in truth ${String(offset)}`
}

function reasonOf(gap: StoredEvent): unknown {
  try {
    return (JSON.parse(gap.data) as { reason?: unknown }).reason
  } catch {
    return null
  }
}

const brief = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text)
