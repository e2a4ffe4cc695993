import { describe, expect } from 'vitest'
import { batonAnswer } from '../kit/baton.ts'
import { eventually } from '../kit/eventually.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

describe('baton drain', () => {
  test('a relay hands over all its runs and exits 0; who follows one of them notices nothing', async ({
    system,
    run,
  }) => {
    const job = system.agents.job(run, { events: 100_000, perSecond: 100 })
    await system.register(run, { url: job.url, cancel: job.cancelUrl })
    await using client = system.follow(run)
    await client.untilEvents(20)
    const owner = await system.owner(run)
    const { code, lines, output } = await batonAnswer(system.nats.url, ['--json', 'drain', owner.name])
    expect(code, output).toBe(0)
    expect(lines).toMatchObject([{ relay: owner.name, runs: expect.any(Number), gone: true }])
    expect(await owner.child.exited).toEqual({ code: 0, signal: null })
    const next = await eventually('another has it', async () => {
      const now = await system.owner(run)
      return now.name === owner.name ? null : now
    })
    expect(next.name).not.toBe(owner.name)
    await client.untilEvents(client.frames.length + 50)
    expect(client.breach).toBeNull()
    // The one that is left is drained by its boot, and says that nobody is left.
    const boot = (await system.claim(run))?.boot ?? ''
    const last = await batonAnswer(system.nats.url, ['drain', boot])
    expect(last.code, last.output).toBe(0)
    expect(last.output).toContain(`${next.name} is the only relay: its runs wait until there is another`)
    await system.heal()
    await client.untilEvents(client.frames.length + 50)
    expect(client.breach).toBeNull()
    await system.post(`/runs/${run}/cancel`, {})
  })

  test('of a relay there is not it says so, and who there is', async ({ system }) => {
    const { code, output } = await batonAnswer(system.nats.url, ['drain', 'nobody'])
    expect(code).toBe(4)
    expect(output).toBe('there is no relay nobody; there are relay-1, relay-2\n')
  })
})
