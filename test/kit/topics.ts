import { headers } from '@nats-io/nats-core'
import type { Nats } from '@baton/store/connect'
import { topicSubject } from '@baton/store/names'
import type { Received } from './sse-client.ts'

/** Publishes natively, as anybody may. Returns the sequence. */
export async function writeTopic(nats: Nats, topic: string, data: string): Promise<number> {
  return (await nats.js.publish(topicSubject(topic), data, { headers: headers() })).seq
}

/** So many events of one topic, numbered; several on the way at once. Returns the sequence of the last. */
export async function writeTopics(nats: Nats, topic: string, from: number, to: number): Promise<number> {
  let last = 0
  for (let at = from; at <= to; at += 100) {
    const count = Math.min(100, to - at + 1)
    const written = await Promise.all(
      Array.from({ length: count }, (_, n) => writeTopic(nats, topic, `${topic} ${at + n}`)),
    )
    last = written.at(-1) ?? last
  }
  return last
}

/** The sequence in a frame's id. */
export const sequenceOf = (frame: Pick<Received, 'id'>): number => Number(frame.id?.split('-')[0])

/** What `writeTopics` says. */
export const numbered = (topic: string, from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => `${topic} ${from + at}`)
