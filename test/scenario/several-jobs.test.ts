import { describe, expect } from 'vitest'
import { END, eventType } from '@baton/core/event'
import type { Script } from '../kit/agents.ts'
import { eventually } from '../kit/eventually.ts'
import type { Emitted, JobEmission } from '../kit/history.ts'
import { expectPromises } from '../kit/judge.ts'
import { indexOf, SseClient } from '../kit/sse-client.ts'
import { testWithSystem } from '../kit/system.ts'

/** Far less than the jobs emit: of one that is silent for long the checkpoint alone knows where it stands. */
const KEPT_EVENTS = 9000

const test = testWithSystem({ relays: 2, edges: 2, environment: { BATON_RUN_EVENTS: String(KEPT_EVENTS) } })

type Enveloped = Emitted & { readonly run: string; readonly job: string | null; readonly type: string }

/** What a client of envelopes has, without what Baton says itself. */
const envelopes = (client: SseClient): readonly Enveloped[] =>
  client.events
    .map(({ event, data }) => (event === END ? null : (JSON.parse(data ?? '') as Enveloped)))
    .filter((event) => event !== null)

/** One job's events as they were emitted; nothing of Baton's among them. */
function expectEmitted(got: readonly Enveloped[], { job, events }: JobEmission): void {
  const own = got.filter((event) => event.job === job).map(({ type, id, data }) => ({ type, id, data }))
  expect(own).toEqual(events.map(({ name, id, data }) => ({ type: eventType(name, data), id, data })))
}

describe('a run of several jobs', () => {
  test('I1: one of them silent for 10,000 events of the others, its own gone from the log, before a takeover: each is resumed exactly', async ({
    system,
    run,
  }) => {
    const pause = { after: 10, ms: 19_000 }
    const quiet = system.agents.job(`${run}-quiet`, { events: 20, perSecond: 0, pause })
    // It says all of it again, and gives no ids: told by its first event, which only the checkpoint still knows.
    const replaying = system.agents.job(`${run}-replaying`, {
      mode: 'replay',
      idEvery: 0,
      events: 20,
      perSecond: 0,
      pause,
    })
    const busy = ['a', 'b'].map((name) => system.agents.job(`${run}-${name}`, { events: 6000, perSecond: 400 }))
    const agents = [quiet, replaying, ...busy]
    await system.register(run, { jobs: agents.map(({ url }, at) => ({ job: `job-${at}`, url })) })
    const client = system.follow(run, { query: '?format=envelope' })
    await client.untilEvents(10_500, 60_000)
    const owner = await system.owner(run)
    await owner.child.kill()
    await client.done
    expect(client.breach).toBeNull()
    expect(client.frames.filter(({ event }) => event?.startsWith('stream.re') ?? false)).toEqual([])
    expect(client.openings.map(({ status }) => status)).toEqual([200, 204])
    expect(client.events.map(indexOf)).toEqual(client.events.map((_, at) => at + 1))
    const got = envelopes(client)
    for (const [at, agent] of agents.entries()) {
      const emission = await agent.emission(`job-${at}`)
      expectEmitted(got, emission)
      expect(emission.connections.length).toBe(2)
    }
    expect(got).toHaveLength(2 * 21 + 2 * 6001)
    expect((await system.show(run)).end).toEqual({ reason: 'completed', detail: null })
  })

  test('I1: agents of every kind in one run, its relay killed three times: each is resumed as its kind wants it', async ({
    system,
    run,
  }) => {
    const scripts: readonly Partial<Script>[] = [
      {},
      { idEvery: 3 },
      { mode: 'replay' },
      { mode: 'replay', idEvery: 0 },
      { mode: 'window', window: 600 },
    ]
    const agents = scripts.map((script, at) =>
      system.agents.job(`${run}-${at}`, { events: 900, perSecond: 60, ...script }),
    )
    await system.register(run, { jobs: agents.map(({ url }, at) => ({ job: `job-${at}`, url })) })
    const client = system.follow(run)
    for (const events of [300, 1100, 1900]) {
      await client.untilEvents(events)
      const owner = await system.owner(run)
      await owner.child.kill()
      await owner.restart({ wait: false })
    }
    await client.done
    const jobs = await Promise.all(agents.map((agent, at) => agent.emission(`job-${at}`)))
    await expectPromises(system, run, { jobs, clients: [client] })
  })

  test('ends when all of them have: failed if one failed, else cancelled if one was, else completed', async ({
    system,
    run,
  }) => {
    const cases = [
      [['done', 'done', 'done'], 'completed'],
      [['done', 'cancelled', 'done'], 'cancelled'],
      [['cancelled', 'failed', 'done'], 'failed'],
    ] as const
    await Promise.all(
      cases.map(async ([terminals, reason], at) => {
        const name = `${run}-${at}`
        // The last is the last to end, and it is the one that ends well.
        const agents = terminals.map((terminal, of) =>
          system.agents.job(`${name}-${of}`, { events: 20 * (of + 1), perSecond: 50, terminal }),
        )
        await system.register(name, { jobs: agents.map(({ url }, of) => ({ job: `job-${of}`, url })) })
        const client = system.follow(name)
        await client.done
        const jobs = await Promise.all(agents.map((agent, of) => agent.emission(`job-${of}`)))
        await expectPromises(system, name, { jobs, clients: [client] })
        const last = client.events.at(-1)
        expect([last?.event, (JSON.parse(last?.data ?? '') as { reason: string }).reason]).toEqual([END, reason])
      }),
    )
  })

  test('I2: several such runs on one connection, through kill -9 of their relays and of the edge: each consecutive and whole', async ({
    system,
    run,
  }) => {
    const names = ['a', 'b', 'c'].map((name) => `${run}-${name}`)
    const agents = new Map(
      names.map((name) => [
        name,
        ['x', 'y'].map((job) => ({ job, agent: system.agents.job(`${name}-${job}`, { events: 700, perSecond: 60 }) })),
      ]),
    )
    for (const [name, jobs] of agents) {
      await system.register(name, { jobs: jobs.map(({ job, agent }) => ({ job, url: agent.url })) })
    }
    const query = names.map((name) => `run=${name}`).join('&')
    const urls = system.edges.map(({ url }) => `${url}/runs/events?${query}&from=start`)
    const client = new SseClient({ urls })
    await client.untilEvents(400)
    const owner = await system.owner(names[0] ?? '')
    await owner.child.kill()
    await owner.restart({ wait: false })
    await client.untilEvents(1000)
    const serving = client.openings.at(-1)?.url ?? ''
    const edge = system.edges.find(({ url }) => serving.startsWith(url))
    await edge?.child.kill()
    await client.done
    expect(client.breach).toBeNull()
    expect(client.openings.map(({ status }) => status)).toContain(null)
    const sequences = client.events.map(({ id }) => Number(id?.split('-')[0]))
    expect(sequences).toEqual(sequences.toSorted((one, other) => one - other))
    const got = envelopes(client)
    for (const [name, jobs] of agents) {
      const own = got.filter((event) => event.run === name)
      for (const { job, agent } of jobs) expectEmitted(own, await agent.emission(job))
      expect(own).toHaveLength(2 * 701)
    }
    const ends = client.events.filter(({ event }) => event === END)
    expect(ends.map(({ data }) => (JSON.parse(data ?? '') as { run: string }).run).toSorted()).toEqual(names)
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
