import { expect } from 'vitest'
import { GAP } from '@baton/core/event'
import { expectPromises } from '../kit/judge.ts'
import { eventually } from '../kit/eventually.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { testWithSystem } from '../kit/system.ts'
import type { AgentMode } from '../kit/agents.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

/**
 * What the agent does with one who comes back, how many of its events have an id, and what the registration says. An
 * agent with ids that ignores Last-Event-ID and replays nothing must say so: from outside it looks like one that
 * honours it.
 */
const cases: readonly (readonly [AgentMode, number, string])[] = [
  ['id', 1, 'last-event-id'],
  ['replay', 1, 'replay'],
  ['none', 1, 'none'],
  ['id', 3, 'auto'],
  ['replay', 0, 'auto'],
  ['window', 1, 'auto'],
  ['none', 0, 'auto'],
]

test.for(cases)(
  'I1: an agent that replays by %s, every %ith event with an id, registered as %s, is cut three times and its relay killed',
  async ([mode, idEvery, resume], { system, run }) => {
    await using recorder = await LogRecorder.start(system.nats.url)
    const job = system.agents.job(run, { mode, idEvery, events: 600, perSecond: 80 })
    await system.register(run, { url: job.url, resume })
    const client = system.follow(run)
    for (const events of [40, 90, 140]) {
      await client.untilEvents(events)
      const before = (await job.emission()).connections.length
      await job.cut()
      await eventually('the relay is back at the agent', async () => (await job.emission()).connections.length > before)
    }
    await client.untilEvents(200)
    const owner = await system.owner(run)
    await owner.child.kill()
    await client.done
    const log = (await recorder.finish()).get(run) ?? []
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client], log })
    const gaps = log.filter((entry) => entry.kind === 'event' && entry.event.type === GAP).length
    // Four reconnects: each is a gap for an agent that replays nothing, none is for one that does.
    if (mode === 'none') expect(gaps).toBe(4)
    else expect(gaps).toBe(0)
  },
)
