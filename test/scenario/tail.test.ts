import { expect } from 'vitest'
import { baton } from '../kit/baton.ts'
import type { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { testWithSystem, type System } from '../kit/system.ts'

const test = testWithSystem({ relays: 1, edges: 2 })

function tail(system: System, run: string, ...args: string[]): Child {
  const edges = system.edges.flatMap((edge) => ['--edge', edge.url])
  return baton(system.nats.url, ['--json', 'tail', 'run', run, ...edges, ...args])
}

const indexes = (child: Child) => child.logLines.flatMap(({ index }) => (typeof index === 'number' ? [index] : []))

test('I2: `baton tail run` comes back by itself when its edge dies, prints every event once, and ends with the run', async ({
  system,
  run,
}) => {
  const job = system.agents.job(run, { events: 300, perSecond: 100 })
  await system.register(run, { url: job.url })
  await using child = tail(system, run)
  await eventually('it prints', () => indexes(child).length > 20)
  await system.edges[0]?.child.kill()
  expect(await child.exited).toEqual({ code: 0, signal: null })
  expect(indexes(child)).toEqual(indexes(child).map((_, at) => at + 1))
  expect(child.logLines.at(-1)).toMatchObject({ event: 'stream.end', data: { reason: 'completed' } })
})

test('The exit code of `baton tail run` says how the run ended, and that there is none', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 10_000, perSecond: 100 })
  await system.register(run, { url: job.url })
  await using child = tail(system, run)
  await eventually('it prints', () => indexes(child).length > 2)
  await system.post(`/runs/${run}/cancel`, {})
  expect((await child.exited).code).toBe(1)
  await using nobody = tail(system, 'there-is-none')
  expect((await nobody.exited).code).toBe(4)
})
