import { expect, test } from 'vitest'
import { Agents } from '../kit/agents.ts'
import { eventually } from '../kit/eventually.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { startRelay } from '../kit/process.ts'

/** Names that every object of JavaScript knows something under. */
const NAMES = ['constructor', 'toString', '__proto__', 'main']

test('a job, and a run, may be called whatever a name can be, and is relayed, taken over and shown as any other', async () => {
  await using log = await LogServer.start()
  await using agents = await Agents.start()
  await using edge = await LocalEdge.start(log.server.url)
  await using relay = await startRelay('relay-1', { natsUrl: log.server.url })
  const show = async (run: string) => {
    const response = await fetch(`${edge.url}/runs/${run}`)
    return (await response.json()) as { state: string; end: unknown; jobs: { job: string; ordinal: number }[] }
  }
  for (const run of NAMES) {
    const jobs = NAMES.map((job) => {
      return { job, url: agents.job(`${run}-${job}`, { events: 40, perSecond: 20 }).url }
    })
    const made = await fetch(`${edge.url}/runs`, { method: 'POST', body: JSON.stringify({ run, jobs }) })
    expect(made.status).toBe(201)
  }
  await eventually('every job has begun', async () => {
    const shown = await Promise.all(NAMES.map(show))
    return shown.every(({ jobs }) => jobs.length === NAMES.length && jobs.every(({ ordinal }) => ordinal > 0))
  })
  await relay.restart()
  for (const run of NAMES) {
    const shown = await eventually(`${run} has ended`, async () => {
      const now = await show(run)
      return now.state === 'ended' ? now : null
    })
    expect(shown.end).toEqual({ reason: 'completed', detail: null })
    // Its forty events and the terminal one, each once.
    expect(Object.fromEntries(shown.jobs.map(({ job, ordinal }) => [job, ordinal]))).toEqual(
      Object.fromEntries(NAMES.map((job) => [job, 41])),
    )
  }
})
