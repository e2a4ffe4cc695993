import { expect, test } from 'vitest'
import { baton as batonAt } from '../kit/baton.ts'
import type { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { freePort } from '../kit/free-port.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'

/** `baton publish` and `baton tail topic`, as a script would use them. */

let log: LogServer
let edge: LocalEdge
forAllTests(async (keep) => {
  log = keep(await LogServer.start())
  edge = keep(await LocalEdge.start(log.server.url))
})

const baton = (...args: string[]): Child => batonAt(log.server.url, ['--json', ...args])

test('what is published is printed by who follows, and a key stores once', async () => {
  await using following = baton('tail', 'topic', 'orders.*', 'labels.42', '--edge', edge.url)
  await eventually('it follows', () => following.logLines.some(({ event }) => event === 'stream.open'))
  const stored: Record<string, unknown>[] = []
  for (const args of [
    ['orders.1', 'hello', '--type', 'note', '--key', 'k'],
    ['orders.1', 'hello again', '--key', 'k'],
    ['labels.42', 'last'],
  ]) {
    await using child = baton('publish', ...args)
    expect((await child.exited).code, child.output).toBe(0)
    stored.push(...child.logLines)
  }
  const [first, second] = stored
  expect(first).toMatchObject({ topic: 'orders.1', stream: 'TOPICS', duplicate: false })
  expect(second).toEqual({ ...first, duplicate: true })
  const printed = () => following.logLines.filter(({ data, topic }) => data !== undefined && topic !== undefined)
  await eventually('both are printed', () => printed().length === 2)
  expect(printed()).toMatchObject([
    { topic: 'orders.1', type: 'note', data: 'hello', sequence: first?.['sequence'] },
    { topic: 'labels.42', type: 'message', data: 'last' },
  ])
})

test('what is no topic is refused with an exit code of its own', async () => {
  await using publishing = baton('publish', 'no..topic', 'x')
  expect((await publishing.exited).code).toBe(2)
  await using following = baton('tail', 'topic', 'no..topic', '--edge', edge.url)
  expect((await following.exited).code).toBe(2)
})

test('without --edge both speak to the edges of BATON_EDGE_URL, to the next one where one does not answer', async () => {
  const deaf = await freePort()
  const environment = { BATON_EDGE_URL: `http://127.0.0.1:${deaf},${edge.url}` }
  // No NATS server there: it comes through an edge, or not at all.
  const through = (...args: string[]) => batonAt('nats://127.0.0.1:9', ['--json', ...args], environment)
  await using following = through('tail', 'topic', 'by-edge.*')
  await eventually('it follows', () => following.logLines.some(({ event }) => event === 'stream.open'))
  await using publishing = through('publish', 'by-edge.1', 'paid')
  expect((await publishing.exited).code, publishing.output).toBe(0)
  expect(publishing.logLines).toMatchObject([{ topic: 'by-edge.1', stream: 'TOPICS' }])
  await following.said(/"data":"paid"/)
})
