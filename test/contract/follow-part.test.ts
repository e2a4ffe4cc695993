import { setTimeout as delay } from 'node:timers/promises'
import { headers } from '@nats-io/nats-core'
import type { Position } from '@baton/core/position'
import type { TimedEvent } from '@baton/core/timed'
import { STREAM } from '@baton/store/names'
import { PartFollower } from '@baton/store/follow-part'
import { expect, test } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { numbered, writeTopics } from '../kit/topics.ts'

const EVENTS = 200

const dataOf = ({ event }: TimedEvent): string => event.data

const endOf = (after: Position, events: readonly TimedEvent[]): Position => {
  const last = events.at(-1)
  return last === undefined ? after : { sequence: last.sequence, mark: last.atMs }
}

test('I2: what could not be taken comes again, and nothing after it comes first', async () => {
  await using log = await LogServer.start()
  await writeTopics(log.nats, 'followed', 1, EVENTS)
  const taken: string[] = []
  let refused = 0
  const follower = new PartFollower(
    log.nats,
    { stream: STREAM.topics, subjects: ['topic.followed', 'topic.other'] },
    () => async (after, events) => {
      // As while nobody leads the stream, each time it had come a little further.
      if (refused < 5 && taken.length >= 20 * refused) {
        refused++
        throw new Error('nothing can be said of the stream now')
      }
      taken.push(...events.map(dataOf))
      return endOf(after, events)
    },
    async () => undefined,
  )
  follower.restart({ sequence: 0, mark: 0 })
  await eventually('all is taken', () => taken.length >= EVENTS)
  follower.close()
  expect(refused).toBe(5)
  expect(taken).toEqual(numbered('followed', 1, EVENTS))
})

test('I2: where a consumer fails while what it has brought is taken, the next one begins behind that', async () => {
  await using log = await LogServer.start()
  await writeTopics(log.nats, 'slow', 1, EVENTS)
  const inboxes: string[] = []
  log.nats.nc.subscribe('$JS.API.CONSUMER.MSG.NEXT.>', {
    callback: (_error, { reply }) => void inboxes.push(reply ?? ''),
  })
  const taken: string[] = []
  let [busy, mostBusy] = [0, 0]
  const follower = new PartFollower(
    log.nats,
    { stream: STREAM.topics, subjects: ['topic.slow'] },
    () => async (after, events) => {
      mostBusy = Math.max(mostBusy, ++busy)
      // Longer than it takes until there is another consumer.
      if (taken.length === 0) await delay(1000)
      taken.push(...events.map(dataOf))
      busy--
      return endOf(after, events)
    },
    async () => undefined,
  )
  follower.restart({ sequence: 0, mark: 0 })
  await eventually('it is at work', () => busy === 1 && inboxes.length > 0)
  // What a server says to whoever asks for something malformed: it ends the consumer with an error.
  log.nats.nc.publish(inboxes[0] ?? '', '', { headers: headers(400, 'Bad Request') })
  await writeTopics(log.nats, 'slow', EVENTS + 1, EVENTS + 20)
  await eventually('all is taken', () => taken.includes(`slow ${EVENTS + 20}`))
  follower.close()
  expect(new Set(inboxes).size).toBeGreaterThan(1)
  expect(mostBusy).toBe(1)
  expect(taken).toEqual(numbered('slow', 1, EVENTS + 20))
})

test('I2: what is still busy for a consumer that was replaced shares nothing with what takes from the next one', async () => {
  await using log = await LogServer.start()
  await writeTopics(log.nats, 'replaced', 1, EVENTS)
  const takers: string[][] = []
  const goesOn = Promise.withResolvers<void>()
  const follower = new PartFollower(
    log.nats,
    { stream: STREAM.topics, subjects: ['topic.replaced'] },
    () => {
      const taken: string[] = []
      takers.push(taken)
      return async (after, events, signal) => {
        if (taken === takers[0]) await goesOn.promise
        if (!signal.aborted) taken.push(...events.map(dataOf))
        return endOf(after, events)
      }
    },
    async () => undefined,
  )
  follower.restart({ sequence: 0, mark: 0 })
  await eventually('the first is there', () => takers.length === 1)
  follower.restart({ sequence: 0, mark: 0 })
  await eventually('all is taken by the second', () => takers[1]?.length === EVENTS)
  goesOn.resolve()
  follower.close()
  expect(takers.slice(0, 2)).toEqual([[], numbered('replaced', 1, EVENTS)])
})
