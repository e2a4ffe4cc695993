import { describe, expect } from 'vitest'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '../kit/eventually.ts'
import { expectPromises } from '../kit/judge.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { testWithSystem, type System } from '../kit/system.ts'
import type { App } from '../kit/process.ts'
import type { AgentJob } from '../kit/agents.ts'
import type { SseClient } from '../kit/sse-client.ts'

const test = testWithSystem({ relays: 2, edges: 2 })

/** A run of 100 events a second with one client, well under way. */
async function underWay(system: System, run: string): Promise<{ job: AgentJob; client: SseClient; owner: App }> {
  const job = system.agents.job(run, { events: 600, perSecond: 100 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.untilEvents(100)
  return { job, client, owner: await system.owner(run) }
}

describe('the owner of a run', () => {
  test('I1 I2 I3 I6: killed with -9, it is replaced, and the client notices nothing', async ({ system, run }) => {
    await using recorder = await LogRecorder.start(system.nats.url)
    const { job, client, owner } = await underWay(system, run)
    const before = await system.claim(run)
    await owner.child.kill()
    const claim = await eventually('another boot claims the run', async () => {
      const now = await system.claim(run)
      return now !== null && now.boot !== before?.boot ? now : null
    })
    expect(claim.relay).not.toBe(owner.name)
    await client.done
    const log = (await recorder.finish()).get(run)
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client], log: log ?? [] })
    expect(new Set(client.frames.map((frame) => frame.connection)).size, 'connections of the client').toBe(1)
  })

  test('I3 I5: stopped for 5 s and continued, its late appends are refused and it drops the run', async ({
    system,
    run,
  }) => {
    await using recorder = await LogRecorder.start(system.nats.url)
    const { job, client, owner } = await underWay(system, run)
    const frozen = { fromMs: Date.now(), toMs: 0 }
    owner.child.pause()
    await delay(5000)
    const { owner: successor } = await system.show(run)
    expect(successor?.relay).not.toBe(owner.name)
    owner.child.resume()
    frozen.toMs = Date.now()
    await eventually(`${owner.name} has dropped the run`, async () => {
      const figures = await (await fetch(`${owner.url}/metrics`)).text()
      return /^baton_relay_runs_lost_total 1$/m.test(figures) && /^baton_relay_runs 0$/m.test(figures)
    })
    await client.done
    const log = (await recorder.finish()).get(run)
    await expectPromises(
      system,
      run,
      { jobs: [await job.emission()], clients: [client], log: log ?? [] },
      { frozen: [frozen] },
    )
  })

  test('I1 I2 I6: asked to stop, it hands the run over and exits 0', async ({ system, run }) => {
    await using recorder = await LogRecorder.start(system.nats.url)
    const { job, client, owner } = await underWay(system, run)
    const exit = await owner.child.terminate()
    expect(exit).toEqual({ code: 0, signal: null })
    const { owner: successor } = await system.show(run)
    expect(successor?.relay).not.toBe(owner.name)
    await client.done
    const log = (await recorder.finish()).get(run)
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client], log: log ?? [] })
  })
})

describe('the edge of a client', () => {
  test('I2: killed with -9, the client goes on at another, nothing twice, nothing missing', async ({ system, run }) => {
    const { job, client } = await underWay(system, run)
    await system.edges[0]?.child.kill()
    await client.done
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client] })
    expect(client.openings.length).toBeGreaterThan(1)
  })

  test('I2: asked to stop, it says goodbye, exits 0, and the client goes on at another', async ({ system, run }) => {
    const { job, client } = await underWay(system, run)
    const exit = await system.edges[0]?.child.terminate()
    expect(exit).toEqual({ code: 0, signal: null })
    await client.until('stream.bye', (frame) => frame.event === 'stream.bye')
    await client.done
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client] })
  })
})
