import { describe, expect } from 'vitest'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary } from '../kit/find-binary.ts'
import { testWithSystem, type System } from '../kit/system.ts'

const test = testWithSystem({ relays: 1, edges: 1 })

/** Runs the real nats CLI as an operator would type it. */
function nats(system: System, ...words: string[]): Child {
  const binary = findBinary('nats')
  if (binary === null) throw new Error('no nats CLI: run `npm run setup`')
  return new Child(`nats ${words.join(' ')}`, binary, ['-s', system.nats.url, ...words], {
    PATH: process.env['PATH'] ?? '',
    HOME: system.nats.folder,
  })
}

/** As `nats`, in a terminal of its own: `nats stream view` pages, and refuses anything else. */
function natsOnTerminal(system: System, ...words: string[]): Child {
  const [nats, script] = [findBinary('nats'), findBinary('script')]
  if (nats === null || script === null) throw new Error('this needs the nats CLI and script(1) of util-linux')
  const line = [nats, '-s', system.nats.url, ...words].join(' ')
  return new Child(`nats ${words.join(' ')}`, script, ['-qefc', line, '/dev/null'], {
    PATH: process.env['PATH'] ?? '',
    HOME: system.nats.folder,
    TERM: 'xterm',
  })
}

async function answer(system: System, ...words: string[]): Promise<string> {
  await using child = nats(system, ...words)
  const exit = await child.exited
  expect(exit.code, child.output).toBe(0)
  return child.output
}

describe('with nothing but the nats CLI', () => {
  test('`nats kv put runs r1 {"url":…}` has a run relayed, and `nats sub live.run.*` shows its events', async ({
    system,
    run,
  }) => {
    const job = system.agents.job(run, { events: 50, perSecond: 100 })
    await using subscriber = nats(system, 'sub', 'live.run.*')
    await subscriber.said(/Subscribing on live\.run\.\*/)
    await answer(system, 'kv', 'put', 'runs', run, JSON.stringify({ url: job.url }))
    await subscriber.said(new RegExp(`live\\.run\\.${run}"`))
    await subscriber.said(/Baton-Index: 50\b/)
    await subscriber.said(/Baton-Type: stream\.end/)
    expect(subscriber.output).toMatch(/Baton-Job: main/)
    expect(subscriber.output).toMatch(/Baton-Epoch: \d+/)
    expect(subscriber.output).toMatch(/Baton-Time: \d{4}-\d\d-\d\dT/)
    expect(subscriber.output).not.toMatch(/Nats-Msg-Id/)
  })

  test('`nats stream view RUNS` shows events and owner records', async ({ system, run }) => {
    const job = system.agents.job(run, { events: 5, perSecond: 100, ends: false })
    await system.register(run, { url: job.url })
    await using client = system.follow(run)
    await client.untilEvents(5)
    await using events = natsOnTerminal(system, 'stream', 'view', 'RUNS', '25', '--subject', `run.${run}`)
    await events.said(/Reached apparent end of data/)
    expect(events.output).toContain(`Subject: run.${run} `)
    expect(events.output).toMatch(/Baton-Index: 5\b/)
    await using owners = natsOnTerminal(system, 'stream', 'view', 'RUNS', '25', '--subject', `run.${run}.owner`)
    await owners.said(/Reached apparent end of data/)
    expect(owners.output).toMatch(/"relay":"relay-1"/)
  })

  test('`nats kv watch claims` shows who takes a run and when it is given up', async ({ system, run }) => {
    await using watcher = nats(system, 'kv', 'watch', 'claims')
    const job = system.agents.job(run, { events: 50, perSecond: 100 })
    await system.register(run, { url: job.url })
    await watcher.said(new RegExp(`PUT claims > ${run}: .*"relay":"relay-1"`))
    await watcher.said(new RegExp(`DELETE claims > ${run}`))
  })

  test('`nats kv put runs` with "cancel": true ends a run', async ({ system, run }) => {
    const job = system.agents.job(run, { events: 10_000, perSecond: 50 })
    await answer(system, 'kv', 'put', 'runs', run, JSON.stringify({ url: job.url }))
    await using client = system.follow(run, { reconnects: true })
    await eventually('the run is known', async () => (await fetch(system.edgeUrl(`/runs/${run}`))).ok)
    await answer(system, 'kv', 'put', 'runs', run, JSON.stringify({ url: job.url, cancel: true }))
    const end = await client.until('stream.end', (frame) => frame.event === 'stream.end')
    expect(JSON.parse(end.data ?? '')).toMatchObject({ reason: 'cancelled' })
  })

  test('`nats stream ls` and `nats kv ls` describe every stream and bucket', async ({ system }) => {
    const streams = await answer(system, 'stream', 'ls', '--all')
    for (const name of ['RUNS', 'TOPICS', 'ALERTS', 'KV_runs', 'KV_claims', 'KV_status', 'KV_heartbeats'])
      expect(streams).toContain(name)
    const buckets = await answer(system, 'kv', 'ls')
    for (const name of ['runs', 'claims', 'status', 'heartbeats']) expect(buckets).toContain(name)
    expect(streams).toMatch(/events of runs/)
  })
})
