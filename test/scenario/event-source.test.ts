import { EventSource } from 'eventsource'
import { expect } from 'vitest'
import { END } from '@baton/core/event'
import { eventually } from '../kit/eventually.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 1, edges: 1 })

test('I2: a plain EventSource goes on by itself when its edge is killed and comes back, and stops at the end', async ({
  system,
  run,
}) => {
  const [edge] = system.edges
  const job = system.agents.job(run, { events: 400, perSecond: 100 })
  await system.register(run, { url: job.url })
  const indexes: number[] = []
  let ends = 0
  const source = new EventSource(system.edgeUrl(`/runs/${run}/events?format=envelope`))
  const take = ({ lastEventId }: { lastEventId: string }) => indexes.push(Number(lastEventId.split('-')[1]))
  source.addEventListener('message', take)
  source.addEventListener(END, (event) => {
    take(event)
    ends++
  })
  await eventually('it has events', () => indexes.length > 50)
  await edge?.child.kill()
  await edge?.restart()
  // After the end it comes back once more, as an EventSource does, and the answer 204 tells it to leave it at that.
  await eventually('it has stopped for good', () => source.readyState === EventSource.CLOSED, { withinMs: 30_000 })
  expect(indexes).toEqual(Array.from({ length: 402 }, (_, at) => at + 1))
  expect(ends).toBe(1)
})
