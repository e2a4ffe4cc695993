import { describe, expect } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { expectPromises } from '../kit/judge.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1, environment: { BATON_RUN_EVENTS: '20000' } })

describe('a run of several jobs', () => {
  test('I1: one of them silent for 10,000 events of the others before a takeover: each is resumed exactly', async ({
    system,
    run,
  }) => {
    const quiet = system.agents.job(`${run}-quiet`, { events: 20, perSecond: 0, pause: { after: 10, ms: 8000 } })
    const busy = ['a', 'b'].map((name) => system.agents.job(`${run}-${name}`, { events: 6000, perSecond: 1000 }))
    const jobs = [quiet, ...busy].map(({ url }, at) => ({ job: `job-${at}`, url }))
    await system.register(run, { jobs })
    const client = system.follow(run)
    await client.untilEvents(10_500, 60_000)
    const owner = await system.owner(run)
    await owner.child.kill()
    await client.done
    const emissions = await Promise.all([quiet, ...busy].map((job, at) => job.emission(`job-${at}`)))
    await expectPromises(system, run, { jobs: emissions, clients: [client] })
    expect((await system.show(run)).end).toEqual({ reason: 'completed', detail: null })
  })

  test('a bad job beside good ones fails the run, and harms none of theirs', async ({ system, run }) => {
    const good = system.agents.job(`${run}-good`, { events: 200, perSecond: 200 })
    const bad = `${system.agents.url}/jobs/${run}-bad/stream?status=400`
    await system.register(run, {
      jobs: [
        { job: 'good', url: good.url },
        { job: 'bad', url: bad },
      ],
    })
    const client = system.follow(run)
    await client.done
    await expectPromises(system, run, { jobs: [await good.emission('good')], clients: [client] })
    const shown = await eventually('the run has ended', async () => {
      const now = await system.show(run)
      return now.state === 'ended' ? now : null
    })
    expect(shown.end?.reason).toBe('failed')
    expect(shown.jobs.map(({ job, state }) => [job, state])).toEqual([
      ['good', 'completed'],
      ['bad', 'failed'],
    ])
  })
})
