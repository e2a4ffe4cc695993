import { END, GAP, type StoredEvent } from '@baton/core/event'
import { parsePosition } from '@baton/core/position'
import type { ClientHistory, RunHistory, Violation } from './history.ts'
import { isLogged, type Received } from './sse-client.ts'

const MAX_COMPLAINTS = 20

/**
 * I2: over all its connections a client's events are strictly consecutive and are those of the log; the end arrives
 * once and last; every response begins with exactly one of `stream.open`, `stream.reset`, `stream.busy`; a reset comes
 * only where one is allowed, and the events then go on from where it says.
 */
export function checkClient(
  history: RunHistory,
  client: ClientHistory,
  options: { resets?: boolean } = {},
): Violation[] {
  const log = new Map(
    history.log.flatMap((entry) => (entry.kind === 'event' ? [[entry.event.index, entry.event] as const] : [])),
  )
  const complaints = [
    ...(client.breach === null ? [] : [`breach of the format: ${client.breach}`]),
    ...responseComplaints(client),
    ...eventComplaints(client, log, options.resets ?? false),
    ...statusComplaints(client),
    ...(history.over && !client.frames.some((frame) => frame.event === END)
      ? ['the run is over, but it never got stream.end']
      : []),
  ]
  return complaints
    .slice(0, MAX_COMPLAINTS)
    .map((what) => ({ invariant: 'I2', run: history.run, what: `client ${client.client}: ${what}` }))
}

const openers = new Set(['stream.open', 'stream.reset', 'stream.busy'])

/** Each connection on its own: what it begins with, and what must be its last word. */
function responseComplaints(client: ClientHistory): string[] {
  const complaints: string[] = []
  for (const [connection, frames] of Map.groupBy(client.frames, (frame) => frame.connection)) {
    const spoken = frames.filter((frame) => frame.data !== null)
    const say = (what: string) => complaints.push(`connection ${connection}: ${what}`)
    const [first, ...rest] = spoken
    if (first === undefined) continue
    if (!openers.has(first.event ?? '')) say(`begins with ${first.event ?? 'an event'}`)
    if (client.sees !== 'events' && first.retryMs === null) say('its first block has no retry')
    for (const frame of rest.filter((one) => openers.has(one.event ?? ''))) say(`a later ${frame.event}`)
    const last = spoken.findIndex((frame) => ['stream.bye', 'stream.busy', END].includes(frame.event ?? ''))
    if (last !== -1 && last < spoken.length - 1) say(`goes on after ${spoken[last]?.event}`)
  }
  return complaints
}

/** All connections as one stream. */
function eventComplaints(client: ClientHistory, log: ReadonlyMap<number, StoredEvent>, resets: boolean): string[] {
  const complaints: string[] = []
  let next = client.firstIndex
  let ended = false
  for (const frame of client.frames.filter((one) => one.data !== null)) {
    const at = parsePosition(frame.id ?? '')
    if (frame.event === 'stream.reset') {
      if (!resets) complaints.push(`a stream.reset nobody had to send: ${frame.data}`)
      if (at === null) complaints.push(`a stream.reset with the id ${String(frame.id)}`)
      next = (at?.mark ?? next - 1) + 1
    } else if (frame.event === 'stream.open') {
      if (at === null) complaints.push(`a stream.open with the id ${String(frame.id)}`)
      else if (at.mark !== next - 1)
        complaints.push(`a stream.open after index ${at.mark}, it had everything up to ${next - 1}`)
    } else if (isLogged(frame)) {
      if (ended) complaints.push(`index ${at?.mark} after the end`)
      const wrong = at === null ? `an event with the id ${String(frame.id)}` : mismatch(frame, at, next, log)
      if (wrong !== null) complaints.push(wrong)
      next = (at?.mark ?? next) + 1
      ended ||= frame.event === END
    }
  }
  return complaints
}

function mismatch(
  frame: Received,
  at: { sequence: number; mark: number },
  next: number,
  log: ReadonlyMap<number, StoredEvent>,
): string | null {
  if (at.mark !== next) return `index ${at.mark} on connection ${frame.connection}, it must be ${next}`
  const stored = log.get(at.mark)
  if (stored === undefined) return `index ${at.mark} is not in the log`
  if (stored.sequence !== at.sequence)
    return `index ${at.mark} has the sequence ${at.sequence}, in the log ${stored.sequence}`
  const name = stored.type === END || stored.type === GAP ? stored.type : stored.name
  if (name !== frame.event) return `index ${at.mark} is named ${frame.event}, in the log ${name}`
  return stored.data === frame.data ? null : `index ${at.mark} has other data than the log`
}

/** Any status but 200 and no answer at all ends an EventSource for good; 204 is for those who have the end. */
function statusComplaints(client: ClientHistory): string[] {
  const ends = client.frames.find((frame) => frame.event === END)
  return client.openings.flatMap(({ status, connection }) => {
    if (status === null || status === 200) return []
    if (status === 204 && ends !== undefined && connection > ends.connection) return []
    return [`connection ${connection} was answered ${status}`]
  })
}
