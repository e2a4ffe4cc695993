import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import { complaintsOf, readTopics } from '../kit/check-topics.ts'
import { eventually } from '../kit/eventually.ts'
import { findGateway } from '../kit/find-gateway.ts'
import { Gateway } from '../kit/gateway.ts'
import { SseClient } from '../kit/sse-client.ts'
import { testWithSystem } from '../kit/system.ts'
import { publishSteadily } from '../kit/topic-publisher.ts'

const gateways = [
  ['envoy', await findGateway('envoy')],
  ['nginx', await findGateway('nginx')],
] as const

const [TOPICS, CLIENTS, SECONDS, PER_SECOND] = [20, 200, 38, 500]

const test = testWithSystem({
  relays: 0,
  edges: 2,
  // The limit on opens stays as it is: each client has an address of its own, and the gateway tells the edge which.
  environment: {
    BATON_TRUSTED_PROXIES: '127.0.0.1',
    BATON_OPENS_PER_CLIENT: '20',
    BATON_TOPIC_EVENTS: '5000',
  },
})

/** Where a gateway is not to be had its tests are skipped, and said so. */
describe.each(gateways)('through %s', (kind, binary) => {
  test.skipIf(binary === null)(
    'I2 I4: 200 clients of 20 topics lose nothing and get nothing twice while edges are killed and drained',
    async ({ system }) => {
      await using gateway = await Gateway.start(kind, binary ?? '', { edges: system.edges })
      const topics = Array.from({ length: TOPICS }, (_, at) => `${kind}.${at + 1}`)
      const over = new AbortController()
      const clients = Array.from({ length: CLIENTS }, (_, at) => ({
        topic: topics[at % TOPICS] ?? '',
        follower: new SseClient({
          urls: [`${gateway.url}/topics/events?topic=${topics[at % TOPICS]}`],
          localAddress: `127.0.1.${at + 1}`,
        }),
      }))
      try {
        await eventually('all are open', () => clients.every(({ follower }) => follower.frames.length > 0))

        const publishing = Promise.all(
          topics.map((topic) =>
            publishSteadily(
              {
                url: gateway.url,
                topic,
                count: (SECONDS * PER_SECOND) / TOPICS,
                everyMs: (1000 * TOPICS) / PER_SECOND,
              },
              over.signal,
            ),
          ),
        )
        // A publisher that fails while edges are being killed fails the test below.
        publishing.catch(() => undefined)
        const [one, other] = system.edges
        for (const edge of [one, other, one]) {
          await delay(edge === one ? 7000 : 9000, undefined, { signal: over.signal })
          await edge?.child.kill()
          await edge?.restart()
        }
        await delay(5000, undefined, { signal: over.signal })
        expect(await other?.child.terminate()).toEqual({ code: 0, signal: null })
        await other?.restart()

        const published = await publishing
        const stored = await readTopics(system.store, topics)
        const storedOf = Map.groupBy(stored, ({ event }) => ('topic' in event ? event.topic : ''))
        for (const [at, topic] of topics.entries()) {
          const kept = storedOf.get(topic) ?? []
          // Each once, in the order of its publisher, where the answer said that it is.
          expect(kept.map(({ event, sequence }) => [event.data, sequence])).toEqual(
            published[at]?.map(({ number, sequence }) => [`${topic} ${number}`, sequence]),
          )
        }
        await eventually(
          'all have the last event of their topic',
          () => clients.every(({ topic, follower }) => has(follower, storedOf.get(topic)?.at(-1)?.sequence)),
          { withinMs: 20_000 },
        ).catch(() => undefined)
        const complaints = clients.flatMap(({ topic, follower }, at) =>
          complaintsOf(follower, storedOf.get(topic) ?? []).map((what) => `client ${at + 1}: ${what}`),
        )
        expect(complaints).toEqual([])
        // There was an edge all the time, and the gateway knew it, but for moments in which a busy machine answered it too late.
        const turnedAway = clients.flatMap(({ follower }) =>
          follower.frames.filter(({ comments }) => comments.includes('gateway')),
        )
        expect(turnedAway.length).toBeLessThan(2 * CLIENTS)
        // They did lose their edges, each some of the four that went.
        const connections = clients.map(
          ({ follower }) => new Set(follower.frames.map((frame) => frame.connection)).size,
        )
        expect(Math.max(...connections)).toBeGreaterThan(2)
        expect(connections.filter((count) => count > 1).length).toBeGreaterThan(CLIENTS / 2)
      } finally {
        over.abort(new Error('the test is over'))
        await Promise.all(clients.map(({ follower }) => follower.close()))
      }
    },
    300_000,
  )
})

const has = (client: SseClient, sequence: number | undefined): boolean =>
  sequence !== undefined && client.lastEventId !== null && Number(client.lastEventId.split('-')[0]) >= sequence
