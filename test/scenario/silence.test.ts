import { expect } from 'vitest'
import { expectPromises } from '../kit/judge.ts'
import { startWatchdog } from '../kit/process.ts'
import { testWithSystem } from '../kit/system.ts'

/** Hours of silence in seconds: everything that could time out, divided by one number. */
const SCALE = 120
const scaled = (ms: number): number => Math.round(ms / SCALE)

const MINUTE_MS = 60_000
const SILENCE_MS = scaled(30 * MINUTE_MS)
const PROGRESS_TTL_MS = scaled(60 * MINUTE_MS)

/** For every process. Beats stay as they are, a fifth of a second. */
const environment = {
  BATON_UPSTREAM_SILENCE_MS: String(SILENCE_MS),
  BATON_UPSTREAM_GIVE_UP_MS: String(scaled(30 * MINUTE_MS)),
  BATON_LIVENESS_TTL_MS: String(scaled(5 * MINUTE_MS)),
  BATON_PROGRESS_TTL_MS: String(PROGRESS_TTL_MS),
  BATON_QUIET_MS: String(scaled(MINUTE_MS)),
  BATON_STALL_MS: String(scaled(60 * MINUTE_MS)),
  BATON_DISCONNECT_MS: String(scaled(5 * MINUTE_MS)),
  BATON_ORPHAN_MS: String(scaled(60 * MINUTE_MS)),
  BATON_ON_ORPHAN: 'fail',
  BATON_HEARTBEAT_MS: String(scaled(15_000)),
  // At their least: the time to live of a key counts in seconds.
  BATON_CLAIM_TTL_MS: '1000',
  BATON_CLAIM_RENEW_MS: '333',
  BATON_HEARTBEAT_WRITE_MS: '100',
}

const test = testWithSystem({ relays: 2, edges: 1, environment })

const eventsBefore = 20

/** A silence in the middle of an agent's emission, and what it costs: how often the relay connects in all. */
type Silence = { readonly job: string; readonly ms: number; readonly keepaliveMs: number; readonly connections: number }

/** By run: two, so that two relays have nothing to balance. */
const silences: readonly (readonly Silence[])[] = [
  [{ job: 'beyond-every-limit', ms: PROGRESS_TTL_MS + 3000, keepaliveMs: 1000, connections: 1 }],
  [
    { job: 'without-a-byte', ms: SILENCE_MS - 3000, keepaliveMs: 0, connections: 1 },
    { job: 'asked-again', ms: SILENCE_MS + 5000, keepaliveMs: 0, connections: 2 },
  ],
]

test('I1 I5: an agent may be silent for longer than everything that could time out: nothing is cut, no gap, no takeover', async ({
  system,
  run,
}) => {
  await using _watchdog = await startWatchdog('watchdog', { natsUrl: system.nats.url, environment })
  const runs = await Promise.all(
    silences.map(async (jobs, at) => {
      const name = `${run}-${at}`
      const agents = jobs.map(({ job, ms, keepaliveMs }) => {
        const pause = { after: eventsBefore, ms }
        return system.agents.job(`${name}-${job}`, { events: 2 * eventsBefore, perSecond: 100, pause, keepaliveMs })
      })
      await system.register(name, { jobs: jobs.map(({ job }, of) => ({ job, url: agents[of]?.url })) })
      return { name, jobs, agents, client: system.follow(name) }
    }),
  )
  await Promise.all(runs.map(({ client }) => client.done))
  for (const { name, jobs, agents, client } of runs) {
    const log = await system.log(name)
    const emissions = await Promise.all(agents.map((agent, at) => agent.emission(jobs[at]?.job)))
    await expectPromises(system, name, { jobs: emissions, clients: [client] })
    expect(emissions.map(({ job, connections }) => [job, connections.length])).toEqual(
      jobs.map(({ job, connections }) => [job, connections]),
    )
    expect(log.filter(({ kind }) => kind === 'event')).toHaveLength(jobs.length * (2 * eventsBefore + 1) + 1)
    const epochs = new Set(log.flatMap((entry) => (entry.kind === 'event' ? [entry.event.epoch] : [])))
    expect(epochs.size, `${name} has one owner all the time`).toBe(1)
    // The second is the return with the position of the end, answered 204.
    expect(client.openings.map(({ status }) => status)).toEqual([200, 204])
    expect((await system.show(name)).end).toEqual({ reason: 'completed', detail: null })
  }
})
