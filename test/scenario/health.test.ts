import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, steadily } from '../kit/eventually.ts'
import { freePort } from '../kit/free-port.ts'
import { startEdge, startRelay, startWatchdog, type App } from '../kit/process.ts'
import { System } from '../kit/system.ts'

/** What an orchestrator asks of every process. An election of NATS takes up to 7 s, the patience with it 15 s. */
const ELECTION_MS = 10_000

describe('/livez and /readyz of every process', () => {
  let system: System
  let apps: App[]
  beforeAll(async () => {
    system = await System.start({ relays: 1, edges: 1 })
    const environment = { BATON_QUIET_MS: '1200' }
    apps = [
      ...system.relays,
      ...system.edges,
      await startWatchdog('watchdog', { natsUrl: system.nats.url, environment }),
    ]
  }, 60_000)
  afterAll(async () => {
    await apps.at(-1)?.[Symbol.asyncDispose]()
    await system[Symbol.asyncDispose]()
  })

  const answers = async (path: string): Promise<number[]> =>
    Promise.all(
      apps.map(async ({ url }) => (await fetch(`${url}${path}`, { signal: AbortSignal.timeout(2000) })).status),
    )

  test('say yes for as long as an election of NATS takes; then they are alive, and not ready until it is back', async () => {
    expect(await answers('/readyz')).toEqual([200, 200, 200])
    await system.nats.kill()
    await steadily('all are ready', async () => (await answers('/readyz')).join() === '200,200,200', ELECTION_MS)
    await eventually('none is ready', async () => (await answers('/readyz')).join() === '503,503,503', {
      withinMs: 30_000,
    })
    expect(await answers('/livez')).toEqual([200, 200, 200])
    expect(await answers('/metrics')).toEqual([200, 200, 200])
    await system.nats.start()
    await eventually('all are ready', async () => (await answers('/readyz')).join() === '200,200,200', {
      withinMs: 30_000,
    })
  })
})

test.each([
  ['relay', startRelay],
  ['edge', startEdge],
  ['watchdog', startWatchdog],
])('a process that has never reached NATS is alive, not ready, and measured: %s', async (name, start) => {
  const nowhere = `nats://127.0.0.1:${await freePort()}`
  await using app = await start(name, { natsUrl: nowhere, startedAt: '/livez' })
  expect((await fetch(`${app.url}/readyz`)).status).toBe(503)
  expect(await (await fetch(`${app.url}/metrics`)).text()).toContain('process_cpu_seconds_total')
  expect(await app.child.terminate(), 'it holds nothing that it could lose').toEqual({ code: 0, signal: null })
  expect(app.output).not.toContain('service.failed')
})
