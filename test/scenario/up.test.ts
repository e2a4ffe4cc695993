import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { freePort } from '../kit/free-port.ts'
import { ISSUER, SECRET, signToken } from '../kit/issuer.ts'
import { indexOf, SseClient } from '../kit/sse-client.ts'

/** The whole system as a person starts it. */

type Part = { readonly name: string; readonly pid: number; readonly url: string }
type Ready = {
  readonly processes: readonly Part[]
  readonly addresses: { readonly natsUrl: string; readonly edgeUrls: readonly string[] }
  readonly runs: readonly string[]
}

let folder = ''
let stack = new AsyncDisposableStack()
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baton-up-'))
  stack = new AsyncDisposableStack()
  stack.defer(() => rm(folder, { recursive: true, force: true }))
})
afterEach(() => stack.disposeAsync())

const environment = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' }

async function start(...args: string[]): Promise<Child> {
  const main = join(root, 'apps/cli/src/main.ts')
  const line = [main, 'up', '--json', '--port', String(await freePort()), '--data', join(folder, 'data'), ...args]
  const up = new Child('baton up', process.execPath, line, environment)
  // Asked, not killed: killed it would leave the ending of its parts to others, and the next test would begin before.
  stack.defer(async () => {
    if (up.exit === null) await up.terminate()
  })
  return up
}

const said = (up: Child, event: string) =>
  (up.logLines as readonly { event?: string }[]).filter((line) => line.event === event)

async function ready(up: Child): Promise<Ready> {
  await up.said(/"event":"ready"/, 40_000)
  return said(up, 'ready')[0] as unknown as Ready
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const part = (system: Ready, name: string): Part => {
  const found = system.processes.find((one) => one.name === name)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found
}

async function ownerOf(system: Ready, run: string): Promise<string> {
  return eventually(`${run} has an owner`, async () => {
    const response = await fetch(`${system.addresses.edgeUrls[0]}/runs/${run}`)
    return ((await response.json()) as { owner: { relay: string } | null }).owner?.relay
  })
}

test('I2: one command has live runs, and who follows one notices no kill -9: not of its relay, its edge, its NATS', async () => {
  const up = await start()
  const system = await ready(up)
  const parts = ['nats-server', 'edge-1', 'edge-2', 'relay-1', 'relay-2', 'agent']
  expect(system.processes.map(({ name }) => name)).toEqual(expect.arrayContaining(parts))
  const run = system.runs[0] ?? ''
  const urls = system.addresses.edgeUrls.map((url) => `${url}/runs/${run}/events?format=envelope`)
  const client = new SseClient({ urls })
  stack.defer(() => client[Symbol.asyncDispose]())
  const indexes = () =>
    client.frames
      .filter(({ event }) => event?.startsWith('stream.') !== true)
      .map(({ data }) => (JSON.parse(data ?? '') as { index: number }).index)
  const hasMore = async () => {
    const before = indexes().length
    await eventually('more events come', () => indexes().length > before + 1, { withinMs: 30_000 })
  }
  await hasMore()
  for (const name of [await ownerOf(system, run), 'edge-1', 'nats-server', 'edge-2']) {
    process.kill(part(system, name).pid, 'SIGKILL')
    await eventually(`${name} runs again`, () =>
      (said(up, 'restarted') as readonly { name?: string }[]).some((line) => line.name === name),
    )
    await hasMore()
  }
  expect(client.breach).toBeNull()
  expect(indexes()).toEqual(indexes().map((_, at) => at + (indexes()[0] ?? 1)))
  expect(indexes()[0]).toBe(1)
})

test.each(['SIGINT', 'SIGTERM'] as const)('%s ends all of it, in order, and leaves no process', async (signal) => {
  const up = await start()
  const { processes } = await ready(up)
  process.kill(up.pid, signal)
  expect(await up.exited).toEqual({ code: 0, signal: null })
  expect(processes.filter(({ pid }) => isAlive(pid))).toEqual([])
})

test('Ctrl-C ends the runs of its demo: the next start finds none that nobody can reach', async () => {
  const first = await start()
  const { runs } = await ready(first)
  expect(runs.length).toBeGreaterThan(0)
  process.kill(first.pid, 'SIGINT')
  expect(await first.exited).toEqual({ code: 0, signal: null })
  const { addresses } = await ready(await start('--no-demo'))
  const response = await fetch(`${addresses.edgeUrls[0]}/runs`)
  const shown = (await response.json()) as { runs: { run: string; state: string; end: { reason: string } | null }[] }
  expect(shown.runs.map(({ run }) => run)).toEqual(expect.arrayContaining([...runs]))
  for (const { state, end } of shown.runs)
    expect({ state, reason: end?.reason }).toEqual({ state: 'ended', reason: 'cancelled' })
})

test('killed with -9 it leaves no process either', async () => {
  const up = await start()
  const { processes } = await ready(up)
  await up.kill()
  await eventually('every part is gone', () => processes.every(({ pid }) => !isAlive(pid)))
})

test('npm start, killed with -9, leaves no process', async () => {
  const args = ['start', '--', '--json', '--port', String(await freePort()), '--data', join(folder, 'data')]
  const npm = new Child('npm start', 'npm', args, environment)
  stack.use(npm)
  const { processes } = await ready(npm)
  await npm.kill()
  await eventually('every part is gone', () => processes.every(({ pid }) => !isAlive(pid)), { withinMs: 30_000 })
})

test('I2: three NATS nodes: each is killed in turn and comes back, and a run goes on', async () => {
  const up = await start('--nats-nodes', '3')
  const system = await ready(up)
  const run = system.runs[0] ?? ''
  const client = new SseClient({ urls: system.addresses.edgeUrls.map((url) => `${url}/runs/${run}/events`) })
  stack.defer(() => client[Symbol.asyncDispose]())
  const hasMore = async () => {
    const before = client.events.length
    await eventually('more events come', () => client.events.length > before + 1, { withinMs: 60_000 })
  }
  await hasMore()
  // Who forgets to say how many replicas there are does not take them away.
  const line = [join(root, 'apps/cli/src/main.ts'), 'setup']
  await using setup = new Child('baton setup', process.execPath, line, {
    ...environment,
    BATON_NATS_URL: system.addresses.natsUrl,
  })
  expect(await setup.exited).toMatchObject({ code: 1 })
  expect(setup.output).toContain('num_replicas: 3 → 1 (refused')
  // One of them leads the log, and each has clients.
  for (const name of ['nats-1', 'nats-2', 'nats-3']) {
    process.kill(part(system, name).pid, 'SIGKILL')
    await eventually(`${name} runs again`, () =>
      (said(up, 'restarted') as readonly { name?: string }[]).some((line) => line.name === name),
    )
    await hasMore()
  }
  expect(client.breach).toBeNull()
  expect(client.events.map(indexOf)).toEqual(client.events.map((_, at) => at + 1))
})

test('a busy port is passed by, and said', async () => {
  const busy = createServer()
  await new Promise<void>((resolve) => void busy.listen(0, '127.0.0.1', resolve))
  stack.defer(() => new Promise<void>((resolve) => void busy.close(() => resolve())))
  const { port } = busy.address() as { port: number }
  const up = await start('--port', String(port), '--edges', '1', '--relays', '1', '--no-demo')
  const system = await ready(up)
  expect(Number(new URL(part(system, 'edge-1').url).port)).toBeGreaterThan(port)
  expect(JSON.stringify(said(up, 'noted'))).toContain(`port ${port} is busy`)
})

test('data that a running system uses is not touched by a second one', async () => {
  const options = ['--edges', '1', '--relays', '1', '--no-demo']
  await ready(await start(...options))
  const second = await start(...options)
  expect((await second.exited).code).toBe(1)
  expect(second.output).toMatch(/is in use by nats-server \d+/)
})

test('edges that ask for tokens: it is ready all the same, and shows the demo where it has one', async () => {
  const keyFile = join(folder, 'jwt.key')
  await writeFile(keyFile, SECRET)
  const locked = { BATON_AUTH: 'jwt', BATON_JWT_KEY_FILE: keyFile, BATON_JWT_ISSUERS: ISSUER }
  const args = ['up', '--json', '--relays', '1', '--edges', '1', '--data', join(folder, 'data'), '--port']
  const begin = async (more: Record<string, string>) =>
    new Child('baton up', process.execPath, [join(root, 'apps/cli/src/main.ts'), ...args, String(await freePort())], {
      ...environment,
      ...locked,
      ...more,
    })
  const without = await begin({})
  stack.defer(async () => void (without.exit === null && (await without.terminate())))
  expect((await ready(without)).runs).toEqual([])
  expect(without.output).toContain('BATON_TOKEN must be a token that may manage run:*')
  await without.terminate()
  const token = await signToken({ baton: { manage: ['run:*'] } })
  const shown = await begin({ BATON_TOKEN: token })
  stack.defer(async () => void (await shown.terminate()))
  expect((await ready(shown)).runs).toHaveLength(3)
  expect(shown.output).not.toContain(token)
})

test('what it prints holds nothing of its environment', async () => {
  const main = join(root, 'apps/cli/src/main.ts')
  const args = [main, 'up', '--json', '--no-demo', '--edges', '1', '--port', String(await freePort()), '--data', folder]
  const up = new Child('baton up', process.execPath, args, { ...environment, BATON_SECRET_MINE: 'hush-hush' })
  stack.defer(async () => void (await up.terminate()))
  await ready(up)
  expect(up.output).not.toContain('hush-hush')
})
