import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { connectNats } from '@baton/store/connect'
import { isRefusal } from '@baton/store/nats-errors'
import { batonAnswer } from '../kit/baton.ts'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { Proxy } from '../kit/proxy.ts'

/** What an operator is told whose NATS user is wrong: which one it was, and what to look at. */

let server: NatsServer
let folder: string
forAllTests(async (keep) => {
  server = keep(await NatsServer.start({ users: true }))
  folder = await mkdtemp(join(tmpdir(), 'baton-creds-'))
  keep({ [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) })
})

const urlAs = (user: string) => `nats://${user}127.0.0.1:${server.port}`

/** A file of credentials as nsc writes it: the form is right, whatever is in it. */
async function credentials(seed: string): Promise<string> {
  const path = join(folder, `${seed.slice(-8)}.creds`)
  const part = (what: string, text: string) => `-----BEGIN ${what}-----\n${text}\n------END ${what}------\n\n`
  await writeFile(path, `${part('NATS USER JWT', 'eyJ0eXAiOiJKV1QifQ.e30.x')}${part('USER NKEY SEED', seed)}`)
  return path
}

const app = (name: string, environment: Record<string, string>): Child =>
  new Child(name, process.execPath, [join(root, 'apps', name, 'src/main.ts')], {
    PATH: process.env['PATH'] ?? '',
    ...(name === 'edge' ? { BATON_PORT: '0' } : {}),
    ...environment,
  })

/** The checksum in it is wrong, as that of a seed somebody has typed. */
const BROKEN_SEED = `SU${'A'.repeat(56)}`

const users = [
  ['a wrong password', async () => ({ BATON_NATS_URL: urlAs('operator:guessed@') }), 'BATON_NATS_URL'],
  ['no user at all', async () => ({ BATON_NATS_URL: urlAs('') }), 'nats://user:password@host'],
  [
    'credentials with a broken seed',
    async () => ({ BATON_NATS_URL: urlAs(''), BATON_NATS_CREDS: await credentials(BROKEN_SEED) }),
    'BATON_NATS_CREDS',
  ],
] as const

describe.each(users)('%s', (_, environment, check) => {
  test('ends a command with 5 and one line that says what to check', async () => {
    const { code, output } = await batonAnswer('', ['runs', 'ls'], await environment())
    expect({ code, output }).toEqual({ code: 5, output: expect.stringContaining('does not let this user in') })
    expect(output).toContain(check)
    expect(output).not.toContain('guessed')
    expect(output.trim().split('\n')).toHaveLength(1)
  })

  test('keeps a system from being started there', async () => {
    const { BATON_NATS_URL: url, ...others } = { BATON_NATS_CREDS: '', ...(await environment()) }
    const { code, output } = await batonAnswer('', ['up', '--no-demo', '--data', folder, '--nats', url], others)
    expect({ code, output }).toEqual({ code: 5, output: expect.stringContaining('does not let this user in') })
    expect(output.trim().split('\n')).toHaveLength(1)
  })

  test.each(['relay', 'edge', 'watchdog'])('is said by a %s, which does not give up', async (name) => {
    await using child = app(name, await environment())
    await child.said(/"login.refused"/)
    const said = child.logLines.find(({ event }) => event === 'login.refused')
    expect(said).toMatchObject({ level: 'error', check: expect.stringContaining(check), reason: expect.any(String) })
    expect(said).toHaveProperty('servers', (await environment()).BATON_NATS_URL.replace('guessed', '…'))
    expect(child.output).not.toContain('guessed')
    expect(child.output).not.toContain('"stack"')
    expect(await child.terminate()).toMatchObject({ code: 0 })
  })
})

test('tried again and again, it is said once', async () => {
  const refusals = () => server.output.match(/authentication error/g)?.length ?? 0
  await using child = app('relay', { BATON_NATS_URL: urlAs('operator:guessed@') })
  await child.said(/"login.refused"/)
  const before = refusals()
  await eventually('it tries again', () => refusals() >= before + 3)
  expect(child.logLines.filter(({ event }) => event === 'login.refused')).toHaveLength(1)
})

test.each(['relay', 'edge', 'watchdog'])(
  'a server that is not there is a warning of a %s, without a stack',
  async (name) => {
    await using child = app(name, { BATON_NATS_URL: 'nats://me:hush@127.0.0.1:9' })
    await child.said(/"nats.waiting"/)
    const said = child.logLines.find(({ event }) => event === 'nats.waiting')
    expect(said).toMatchObject({ level: 'warn', servers: 'nats://me:…@127.0.0.1:9', reason: expect.any(String) })
    expect(child.output).not.toContain('hush')
    expect(child.output).not.toContain('"stack"')
  },
)

test.each([
  ['is not there', async () => join(folder, 'none'), 'no such file'],
  ['holds no credentials', async () => join(root, 'package.json'), 'no NATS credentials in it'],
  ['cannot be read', async () => '/proc/self/mem', 'cannot be read'],
])('a file of credentials that %s stops commands and apps with 2', async (_, path, complaint) => {
  const environment = { BATON_NATS_URL: urlAs(''), BATON_NATS_CREDS: await path() }
  const sentence = `BATON_NATS_CREDS: ${complaint}: ${environment.BATON_NATS_CREDS}`
  expect(await batonAnswer('', ['runs', 'ls'], environment)).toMatchObject({
    code: 2,
    output: expect.stringContaining(sentence),
  })
  for (const name of ['relay', 'edge', 'watchdog']) {
    await using child = app(name, environment)
    expect(await child.exited).toMatchObject({ code: 2 })
    expect(child.output).toContain(sentence)
  }
})

test('a system is not started where --nats is no NATS URL: 2', async () => {
  const { code, output } = await batonAnswer('', [
    'up',
    '--no-demo',
    '--data',
    folder,
    '--nats',
    'http://127.0.0.1:4222',
  ])
  expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining('BATON_NATS_URL: must be NATS URLs') })
})

test('a connection that comes back to a server that does not let it in, for a while, waits for that to pass', async () => {
  await using right = await NatsServer.start({ password: 'right' })
  await using wrong = await NatsServer.start({ password: 'wrong' })
  const refusals = 4
  // Each dial is the next one's turn.
  await using proxy = await Proxy.start([right, ...Array.from({ length: refusals }, () => wrong), right])
  const url = `nats://baton:right@127.0.0.1:${proxy.port}`
  const heard: unknown[] = []
  const nats = await connectNats({ servers: [url], name: 'test' }, AbortSignal.timeout(10_000), (error) =>
    heard.push(error),
  )
  const startedAtMs = performance.now()
  proxy.cut()
  await eventually('it was let in again', async () => proxy.connections === refusals + 2 && nats.nc.rtt())
  expect(performance.now() - startedAtMs, 'it does not hammer at the door').toBeGreaterThan(500 * (refusals - 2))
  expect(heard.map(isRefusal), 'it is said once').toEqual([true])
  await nats.nc.close()
})
