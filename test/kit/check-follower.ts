import { parsePosition } from '@baton/core/position'
import type { ClientHistory, Violation } from './history.ts'
import { isLogged, type Received } from './sse-client.ts'

/** What a stream of NATS holds of what a client follows, in its order. */
export type Stored = {
  readonly sequence: number
  /** The run or the topic it belongs to. */
  readonly of: string
  readonly data: string
}

const MAX_COMPLAINTS = 20

/**
 * I2 for a client of topics or of several runs, whose ids say a sequence and a time: from the position of its first
 * `stream.open` on it has exactly what is stored of what it follows, in the stream's order, over all its connections.
 * Nothing was trimmed, so a reset is a broken promise. It may lack what was stored after `upTo` and after the last it has.
 */
export function checkFollower(
  name: string,
  client: ClientHistory,
  stored: readonly Stored[],
  upTo = Infinity,
): Violation[] {
  const complaints = client.breach === null ? [] : [`breach of the format: ${client.breach}`]
  const spoken = client.frames.filter(({ data }) => data !== null)
  const from = parsePosition(spoken.find(({ event }) => event === 'stream.open')?.id ?? '')?.sequence
  for (const { status, connection } of client.openings) {
    if (status !== null && status !== 200 && status !== 204) complaints.push(`connection ${connection}: ${status}`)
  }
  for (const { event, data } of spoken)
    if (event === 'stream.reset') complaints.push(`a reset nobody had to send: ${data}`)
  const events = spoken.filter(isLogged)
  const end = Math.max(upTo, parsePosition(events.at(-1)?.id ?? '')?.sequence ?? 0)
  const wanted = stored.filter(({ sequence }) => sequence > (from ?? 0) && sequence <= end)
  if (from !== undefined) complaints.push(...differences(events, wanted))
  else if (wanted.length > 0) complaints.push('it was never opened')
  return complaints
    .slice(0, MAX_COMPLAINTS)
    .map((what) => ({ invariant: 'I2', run: name, what: `client ${client.client}: ${what}` }))
}

function differences(frames: readonly Received[], wanted: readonly Stored[]): string[] {
  for (const [at, frame] of frames.entries()) {
    const expected = wanted[at]
    const sequence = parsePosition(frame.id ?? '')?.sequence
    const place = `event ${at + 1} on connection ${frame.connection}`
    if (expected === undefined) return [`${place} has the sequence ${sequence}, nothing more is stored`]
    if (sequence !== expected.sequence)
      return [`${place} has the sequence ${sequence}, it must be ${expected.sequence}`]
    if (!says(frame, expected))
      return [`${place} does not say what sequence ${sequence} holds: ${frame.data?.slice(0, 80)}`]
  }
  const missing = wanted.length - frames.length
  return missing > 0
    ? [`${missing} events are missing at the end, the first has the sequence ${wanted[frames.length]?.sequence}`]
    : []
}

/** Enveloped, but for Baton's own events, which keep their data and name their run in it. */
function says(frame: Received, { of, data }: Stored): boolean {
  try {
    const value = JSON.parse(frame.data ?? '') as { run?: string; topic?: string; data?: string }
    if (frame.event?.startsWith('stream.') === true) return value.run === of
    return (value.run ?? value.topic) === of && value.data === data
  } catch {
    return false
  }
}
