import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readKey } from '@baton/store/bucket'
import type { Bucket } from '@baton/store/names'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { passwordOf, type Role } from '../kit/nats-server.ts'
import { System } from '../kit/system.ts'

/** What nats/README.md has people type, as it stands there, with the users of nats/accounts.conf. */

let system: System
let commands: readonly string[]
beforeAll(async () => {
  system = await System.start({ relays: 1, edges: 1, nats: { users: true } })
  const readme = await readFile(join(root, 'nats', 'README.md'), 'utf8')
  const [, block = ''] = /## With the nats CLI[^]*?```sh\n([^]*?)```/.exec(readme) ?? []
  commands = block
    .trim()
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, ''))
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

/** Who stays and listens, and what is said when it does. */
const isFollower = (line: string) => /^nats (sub|kv watch)\b/.test(line)

async function run(user: Role, line: string): Promise<string> {
  await using child = shell(user, line)
  if (isFollower(line)) await child.said(line.includes('watch') ? /PUT claims/ : /Subscribing (on|to)/)
  else if (line.includes('stream view')) await child.said(/Reached apparent end of data|Next Page/)
  else expect((await child.exited).code, `${line}\n${child.output}`).toBe(0)
  return child.output
}

const refused = () => system.nats.child.output.split('\n').filter((line) => line.includes('Violation'))

/** A command as it stands in the README, for a run there is. */
const forRun = (line: string, url: string) => line.replaceAll(/http:[^"]*/g, url)

test('the operator may do all that stands in nats/README.md', async () => {
  const job = system.agents.job('r1', { events: 20, perSecond: 0, ends: false })
  const alert = { run: 'r1', verdict: 'quiet', previous: 'running', since: new Date().toISOString(), epoch: 1 }
  expect(commands.length).toBeGreaterThan(15)
  for (const line of commands) {
    // A run under way, and a word of a watchdog's, are there to be looked at.
    if (line.includes('"cancel":true')) continue
    if (line.startsWith('nats stream get ALERTS')) {
      await using watchdog = await system.connect('watchdog')
      await watchdog.nats.js.publish('alert.run.r1', JSON.stringify(alert))
    }
    await run('operator', forRun(line, job.url))
    if (line.startsWith('nats kv put runs')) {
      const isKept = (bucket: Bucket, key: string) => readKey(system.store, bucket, key)
      await eventually('the run is under way', async () => (await isKept('status', 'r1')).value)
      await eventually('it has got somewhere', async () => (await isKept('heartbeats', 'progress.r1')).value)
    }
  }
  const cancel = commands.find((line) => line.includes('"cancel":true')) ?? ''
  await run('operator', forRun(cancel, job.url))
  await eventually('it is cancelled', async () => (await system.show('r1')).end?.reason === 'cancelled')
  await run('operator', 'nats stream purge RUNS --subject run.r1 --force')
  expect(refused()).toEqual([])
})

test('nobody deletes a single message, the operator neither', async () => {
  await using child = shell('operator', 'nats stream rmm RUNS 1 --force')
  expect((await child.exited).code).not.toBe(0)
  expect(refused().at(-1)).toMatch(
    /BATON\/user:operator" - Publish Violation - Subject "\$JS\.API\.STREAM\.MSG\.DELETE\.RUNS"/,
  )
})

test('a subscriber reads with the same commands, and writes with none', async () => {
  const before = refused().length
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
  expect(refused().slice(before)).toEqual([])
  for (const line of ['nats pub -J topic.orders.42 paid', `nats kv put runs r3 '{"url":"${job.url}"}'`]) {
    await using child = shell('subscriber', line)
    expect((await child.exited).code, child.output).not.toBe(0)
  }
})
