import { expect, test } from 'vitest'
import { Agents } from '../kit/agents.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LogServer } from '../kit/log-server.ts'
import { startEdge, startRelay, startWatchdog } from '../kit/process.ts'
import { wantRun } from '../kit/want-run.ts'

/** SIGTERM drains; the exit code says whether that came to its end. */

let agents: Agents
forAllTests(async (keep) => {
  agents = keep(await Agents.start())
})

/** A relay that has a run, and a NATS server that answers nobody: it cannot hand that run over. */
async function stuckRelay(graceMs: number) {
  const log = await LogServer.start()
  const environment = { BATON_GRACE_MS: String(graceMs) }
  const relay = await startRelay('relay-1', { natsUrl: log.server.url, environment })
  await wantRun(log.nats, 'held', { url: agents.job('held', { events: 100_000, perSecond: 20 }).url })
  await relay.child.said(/"run\.owned"/)
  log.server.pause()
  return {
    relay,
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]()
      await log.server.kill()
      await log[Symbol.asyncDispose]()
    },
  }
}

test('a process that cannot drain ends with 1 when its time is up, and says so', async () => {
  await using stuck = await stuckRelay(1500)
  const askedAtMs = performance.now()
  expect((await stuck.relay.child.terminate()).code).toBe(1)
  expect(performance.now() - askedAtMs).toBeGreaterThan(1400)
  expect(stuck.relay.output).toContain('"stop.overdue"')
})

test('a second signal ends it at once, with 1', async () => {
  await using stuck = await stuckRelay(600_000)
  const { child } = stuck.relay
  process.kill(child.pid, 'SIGTERM')
  await child.said(/"stop\.asked"/)
  expect((await child.terminate()).code).toBe(1)
  expect(child.output).toContain('"stop.forced"')
})

test.each([
  ['relay', startRelay],
  ['edge', startEdge],
  ['watchdog', startWatchdog],
] as const)('%s: a clean drain is 0, before NATS was ever there, too', async (name, start) => {
  const options = { natsUrl: 'nats://127.0.0.1:1', startedAt: '/livez' } as const
  await using app = await start(`${name}-1`, options)
  expect((await app.child.terminate()).code).toBe(0)
})
