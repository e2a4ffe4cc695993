import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readKey } from '@baton/store/bucket'
import { baton, batonAnswer } from '../kit/baton.ts'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { PASSWORDS, passwordOf, type Role } from '../kit/nats-server.ts'
import { System } from '../kit/system.ts'

/** What nats/README.md has people type, as it stands there, with the users of nats/accounts.conf. */

let system: System
let commands: readonly string[]
beforeAll(async () => {
  system = await System.start({ relays: 1, edges: 1, nats: { users: true } })
  const readme = await readFile(join(root, 'nats', 'README.md'), 'utf8')
  commands = [...readme.matchAll(/ \| `(nats [^`]+)` \|$/gm)].map(([, line = '']) => line)
  const [, save = ''] = /^(nats context save .*)$/m.exec(readme) ?? []
  for (const user of ['operator', 'subscriber'] as const) {
    const own = save.replace('…', passwordOf(user)).replaceAll('operator', user).replace('host', system.nats.url)
    await using child = shell(user, own)
    expect((await child.exited).code, child.output).toBe(0)
  }
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

/** In a shell with a configuration of its own; on a terminal where the command pages. */
function shell(user: Role, line: string): Child {
  const [nats, script] = [findBinary('nats'), findBinary('script')]
  if (nats === null || script === null) throw new Error('this needs the nats CLI and script(1) of util-linux')
  const [program, args] = line.includes('stream view')
    ? ([script, ['-qefc', line, '/dev/null']] as const)
    : (['/bin/sh', ['-c', `exec ${line}`]] as const)
  return new Child(line, program, args, {
    PATH: `${dirname(nats)}:${process.env['PATH'] ?? ''}`,
    XDG_CONFIG_HOME: join(system.nats.folder, user),
    TERM: 'xterm',
  })
}

/** Who stays and listens until it is stopped. */
const isFollower = (line: string) => /^nats (sub|kv watch)\b/.test(line)
/** What ends a run or a relay, and so comes last. */
const isEnding = (line: string) => /"cancel":true|nats kv del|relay\.drain/.test(line)

async function run(user: Role, line: string): Promise<string> {
  await using child = shell(user, line)
  if (isFollower(line)) await child.said(line.includes('watch') ? /PUT claims/ : /Subscribing (on|to)/)
  else if (line.includes('stream view')) await child.said(/Reached apparent end of data|Next Page/)
  else expect((await child.exited).code, `${line}\n${child.output}`).toBe(0)
  return child.output
}

test('the operator may do all that stands in nats/README.md', async () => {
  expect(commands.length).toBeGreaterThan(25)
  const job = system.agents.job('r1', { events: 20, perSecond: 0, ends: false })
  await system.register('r1', { url: job.url })
  await eventually('the run is under way', async () => (await readKey(system.store, 'status', 'r1')).value)
  await eventually('it has got somewhere', async () => (await readKey(system.store, 'heartbeats', 'progress.r1')).value)
  await using watchdog = await system.connect('watchdog')
  const alert = { run: 'r1', verdict: 'quiet', previous: 'running', since: new Date().toISOString(), epoch: 1 }
  await watchdog.nats.js.publish('alert.run.r1', JSON.stringify(alert))
  const boot = (await system.claim('r1'))?.boot ?? ''
  const lines = commands.map((line) => line.replaceAll(/http:[^"]*/g, job.url).replaceAll('<boot>', boot))
  const last = [...lines.filter(isEnding), 'nats stream purge RUNS --subject run.r1 --force']
  for (const line of [...lines.filter((one) => !isEnding(one)), ...last]) await run('operator', line)
  // It was asked to drain.
  await system.relays[0]?.child.exited
  await system.heal()
  system.expectNoRefusal()
})

test('nobody deletes a single message, the operator neither', async () => {
  await using child = shell('operator', 'nats stream rmm RUNS 1 --force')
  expect((await child.exited).code).not.toBe(0)
  expect(system.refusals()).toEqual([
    expect.stringMatching(/BATON\/user:operator" - Publish Violation - Subject "\$JS\.API\.STREAM\.MSG\.DELETE\.RUNS"/),
  ])
})

test('a subscriber reads with the same commands, and writes with none', async () => {
  const job = system.agents.job('r2', { events: 20, perSecond: 0, ends: false })
  await system.register('r2', { url: job.url })
  await eventually('the run is under way', async () => (await readKey(system.store, 'status', 'r2')).value)
  const reading = [
    "nats sub 'live.run.*'",
    'nats sub --stream RUNS --last-per-subject',
    'nats kv watch claims',
    'nats kv get status r2 --raw',
    'nats kv ls claims -v --display-value',
    'nats stream get RUNS -S run.r2',
    'nats stream view RUNS --subject run.r2',
  ]
  for (const line of reading) await run('subscriber', line)
  system.expectNoRefusal()
  for (const line of ['nats pub -J topic.orders.42 paid', `nats kv put runs r3 '{"url":"${job.url}"}'`]) {
    await using child = shell('subscriber', line)
    expect((await child.exited).code, child.output).not.toBe(0)
  }
  expect(system.refusals()).toEqual([
    expect.stringContaining('Subject "topic.orders.42"'),
    expect.stringContaining('Subject "$KV.runs.r3"'),
  ])
})

test('`baton publish` of a producer stores, though it may not read where', async () => {
  const stored = await batonAnswer(system.nats.urlOf('producer'), ['--json', 'publish', 'orders.43', 'paid'])
  expect(stored, stored.output).toMatchObject({ code: 0, lines: [{ topic: 'orders.43', position: null }] })
  expect(stored.lines[0]?.['sequence']).toBeGreaterThan(0)
  expect(system.refusals()).toEqual([expect.stringContaining('Subject "$JS.API.STREAM.MSG.GET.TOPICS"')])
})

test('`baton runs watch` shows a subscriber a run that watchdogs have told of', async () => {
  await using watchdog = await system.connect('watchdog')
  const alert = { run: 'r2', verdict: 'stalled', previous: 'quiet', since: new Date().toISOString(), epoch: 1 }
  await watchdog.nats.js.publish('alert.run.r2', JSON.stringify(alert))
  await using watching = baton(system.nats.urlOf('subscriber'), ['--json', 'runs', 'watch', 'r2'])
  await watching.said(/"run":"r2"/)
})

test('the passwords of nats-server in the same shell are nothing to Baton', async () => {
  const { code, output } = await batonAnswer(system.nats.urlOf('operator'), ['runs', 'ls'], PASSWORDS)
  expect(code, output).toBe(0)
})
