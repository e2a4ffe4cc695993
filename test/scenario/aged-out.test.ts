import { expect } from 'vitest'
import { STREAM, runSubject } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { indexOf } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

/** So long does the log keep an event here. */
const MAX_AGE_MS = 4000

const test = testWithSystem({ relays: 2, edges: 1, environment: { BATON_RUNS_MAX_AGE_MS: String(MAX_AGE_MS) } })

async function untilAgedOut(system: System, run: string): Promise<void> {
  await eventually(
    'nothing of the run is kept',
    async () => {
      const { state } = await system.store.jsm.streams.info(STREAM.runs, { subjects_filter: runSubject(run) })
      return Object.keys(state.subjects ?? {}).length === 0
    },
    { withinMs: 30_000, everyMs: 100 },
  )
}

test.for([
  ['its owner lives on', false],
  ['its owner is killed in the silence', true],
] as const)(
  'I1: everything of a live run has aged out and %s: the index goes on',
  async ([, killed], { system, run }) => {
    const job = system.agents.job(run, { events: 60, perSecond: 100, pause: { after: 30, ms: 12_000 } })
    await system.register(run, { url: job.url })
    await using client = system.follow(run)
    await client.untilEvents(30)
    await untilAgedOut(system, run)
    expect((await system.show(run)).state).toBe('running')
    if (killed) await (await system.owner(run)).child.kill()
    await client.untilEvents(61, 40_000)
    expect(client.breach).toBeNull()
    expect(client.events.map(indexOf)).toEqual(
      Array.from({ length: 62 }, (_, at) => at + 1).slice(0, client.events.length),
    )
  },
)

test('an ended run whose log has aged out does not come back to life', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 10, perSecond: 100 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.done
  await untilAgedOut(system, run)
  await eventually(
    'its records have aged out too',
    async () => (await fetch(system.edgeUrl(`/runs/${run}`))).status === 404,
    { withinMs: 30_000, everyMs: 100 },
  )
  expect(await system.claim(run)).toBeNull()
  const { connections } = await job.emission()
  expect(connections).toHaveLength(1)
})
