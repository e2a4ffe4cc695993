import { STREAM } from '@baton/store/names'
import { PartFollower } from '@baton/store/follow-part'
import { expect, test } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { numbered, writeTopics } from '../kit/topics.ts'

const EVENTS = 200

test('I2: what could not be taken comes again, and nothing after it comes first', async () => {
  await using log = await LogServer.start()
  await writeTopics(log.nats, 'followed', 1, EVENTS)
  const taken: string[] = []
  let refused = 0
  const follower = new PartFollower(
    log.nats,
    { stream: STREAM.topics, subjects: ['topic.followed', 'topic.other'] },
    async (after, events) => {
      // As while nobody leads the stream, each time it had come a little further.
      if (refused < 5 && taken.length >= 20 * refused) {
        refused++
        throw new Error('nothing can be said of the stream now')
      }
      taken.push(...events.map(({ event }) => event.data))
      const last = events.at(-1)
      return last === undefined ? after : { sequence: last.sequence, mark: last.atMs }
    },
    async () => undefined,
  )
  follower.restart({ sequence: 0, mark: 0 })
  await eventually('all is taken', () => taken.length >= EVENTS)
  follower.close()
  expect(refused).toBe(5)
  expect(taken).toEqual(numbered('followed', 1, EVENTS))
})
