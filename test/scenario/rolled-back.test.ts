import { cp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { expectPromises } from '../kit/judge.ts'
import { indexOf, isLogged } from '../kit/sse-client.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

/**
 * What a loss of power leaves behind where nothing was synced for a while: a server with older data than it has
 * acknowledged. That much is lost to agents that cannot replay; the others are asked for it again.
 */
test('I1 I2: a NATS server that comes back with older data gets the rest of the log from the agent again', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { events: 3000, perSecond: 100 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.untilEvents(300)
  const [data, older] = [join(system.nats.folder, 'data'), join(system.nats.folder, 'older')]
  await system.nats.kill()
  await cp(data, older, { recursive: true })
  await system.nats.start()
  await client.untilEvents(client.events.length + 300, 30_000)
  await system.nats.kill()
  await rm(data, { recursive: true })
  await rename(older, data)
  await system.nats.start()
  await client.done
  const emission = await job.emission()
  await expectPromises(system, run, { jobs: [emission] })
  // The client has seen events whose places in the stream others have now: it is told by a reset, or needs not be.
  const resumed = client.frames.filter(({ event }) => event === 'stream.reset').map(indexOf)
  let next = 1
  for (const frame of client.frames.filter((one) => one.event === 'stream.reset' || isLogged(one))) {
    if (frame.event !== 'stream.reset') expect(indexOf(frame)).toBe(next)
    next = indexOf(frame) + 1
  }
  expect(resumed.length).toBeLessThanOrEqual(2)
  const said = new Map(client.events.map((frame) => [indexOf(frame), frame.data]))
  expect(emission.events.map((_, at) => said.get(at + 1))).toEqual(emission.events.map(({ data }) => data))
})
