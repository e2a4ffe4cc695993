import { fromConsumer } from '@baton/store/timed'
import type { Nats } from '@baton/store/connect'
import { STREAM, topicSubject } from '@baton/store/names'
import { replayPart } from '@baton/store/replay'
import type { TimedEvent } from '@baton/core/timed'
import { isLogged, type SseClient } from './sse-client.ts'
import { sequenceOf } from './topics.ts'

/** All that is stored of these topics, in order. */
export async function readTopics(nats: Nats, topics: readonly string[]): Promise<readonly TimedEvent[]> {
  const events: TimedEvent[] = []
  const part = { stream: STREAM.topics, subjects: topics.map((topic) => topicSubject(topic)) }
  for await (const page of replayPart(nats, part, 0, AbortSignal.timeout(30_000))) {
    events.push(...page.flatMap((message) => fromConsumer(message) ?? []))
  }
  return events
}

const MAX_COMPLAINTS = 5

/** What a client has seen. */
export type Followed = Pick<SseClient, 'frames' | 'openings' | 'breach'>

/**
 * I2 for topics of which the log has lost nothing: over all its connections a client got exactly what was stored after
 * the position that it was first given, in order, under the ids of the log, and was neither reset nor ended for good.
 */
export function complaintsOf(client: Followed, stored: readonly TimedEvent[]): string[] {
  const complaints = client.breach === null ? [] : [`a breach of the format: ${client.breach.message}`]
  const statuses = client.openings.filter(({ status }) => status !== 200)
  if (statuses.length > 0) complaints.push(`not 200: ${JSON.stringify(statuses.slice(0, 3))}`)
  const reset = client.frames.find(({ event }) => event === 'stream.reset')
  if (reset !== undefined) complaints.push(`a reset: ${reset.data}`)
  const open = client.frames.find(({ event }) => event === 'stream.open')
  if (open === undefined) return [...complaints, 'it was never opened']
  const expected = stored.filter(({ sequence }) => sequence > sequenceOf(open))
  const events = client.frames.filter(isLogged)
  const at = expected.findIndex((event, n) => wire(event) !== `${events[n]?.id} ${events[n]?.event} ${events[n]?.data}`)
  const wrong = at === -1 && events.length > expected.length ? expected.length : at
  if (wrong !== -1) {
    const got = events[wrong]
    const has = got === undefined ? 'nothing' : `${got.id} ${got.event} ${got.data} on connection ${got.connection}`
    complaints.push(`event ${wrong + 1} of ${expected.length}: stored ${wire(expected[wrong])}, got ${has}`)
  }
  return complaints.slice(0, MAX_COMPLAINTS)
}

const wire = (stored: TimedEvent | undefined): string =>
  stored !== undefined && 'topic' in stored.event
    ? `${stored.sequence}-${stored.atMs} ${stored.event.topic} ${stored.event.data}`
    : 'nothing'
