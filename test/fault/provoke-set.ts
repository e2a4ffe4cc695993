import { STREAM } from '@baton/store/names'
import { checkFollower } from '../kit/check-follower.ts'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { clientHistory } from '../kit/judge.ts'
import { readMessages } from '../kit/read-log.ts'
import { System } from '../kit/system.ts'
import { sequenceOf, writeTopic } from '../kit/topics.ts'
import { SseClient } from '../kit/sse-client.ts'

const TOPICS = ['set.a', 'set.b']

/** An edge loses NATS again and again while two topics, followed on one connection, are published to. */
export async function setCutOff(source?: string): Promise<Violation[]> {
  const own = source === undefined ? {} : { source }
  await using system = await System.start({ relays: 1, edges: 1, proxied: 'edges', ...own })
  const [edge] = system.edges
  if (edge === undefined) throw new Error('an edge is needed')
  const proxy = system.proxyOf(edge)
  let written = 0
  const write = async (count: number) => {
    let last = 0
    for (let at = 0; at < count; at++) last = await writeTopic(system.store, TOPICS[written % 2] ?? '', `${++written}`)
    return last
  }
  await write(2)
  const query = TOPICS.map((topic) => `&topic=${topic}`).join('')
  const url = `${edge.url}/topics/events?from=start&format=envelope${query}`
  await using client = new SseClient({ urls: [url] })
  await client.untilEvents(2)
  for (let cut = 0; cut < 5; cut++) {
    await write(20)
    const { connections } = proxy
    proxy.refuses = true
    proxy.cut()
    await write(20)
    proxy.refuses = false
    await eventually('the edge is back', () => proxy.connections > connections)
    const last = await write(40)
    // A new consumer, or the check of a feed that is idle, may take seconds.
    await client.until(`sequence ${last}`, (frame) => sequenceOf(frame) >= last, 30_000)
  }
  const stored: { sequence: number; of: string; data: string }[] = []
  for await (const { seq, subject, data } of readMessages(system.store, STREAM.topics, 1)) {
    stored.push({ sequence: seq, of: subject.replace(/^topic\./, ''), data: new TextDecoder().decode(data) })
  }
  await client.close()
  return checkFollower('a set', clientHistory('set', client), stored)
}
