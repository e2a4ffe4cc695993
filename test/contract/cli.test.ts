import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeKey } from '@baton/store/bucket'
import { connectNats, type Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { baton as startBaton, batonAnswer } from '../kit/baton.ts'
import { eventually } from '../kit/eventually.ts'
import { NatsServer } from '../kit/nats-server.ts'

/** The CLI against a real server, as a script would use it: arguments in, JSON and an exit code out. */

let server: NatsServer
let nats: Nats
beforeAll(async () => {
  server = await NatsServer.start()
  nats = await connectNats({ servers: [server.url], name: 'test' }, AbortSignal.timeout(20_000))
})
afterAll(async () => {
  await nats.nc.close()
  await server[Symbol.asyncDispose]()
})

const baton = (args: string[], environment: Record<string, string> = {}) => batonAnswer(server.url, args, environment)

/** One result, as JSON. */
async function answer<T>(args: string[], environment: Record<string, string> = {}): Promise<T> {
  const { code, output } = await baton(['--json', ...args], environment)
  expect(code, output).toBe(0)
  return JSON.parse(output) as T
}

type Setup = { readonly changes: readonly { readonly name: string; readonly kind: string }[] }
const kinds = ({ changes }: Setup) => [...new Set(changes.map(({ kind }) => kind))]

describe('baton setup', () => {
  test('makes what is missing, and then changes nothing', async () => {
    const first = await answer<Setup>(['setup'])
    expect(first.changes.map(({ name }) => name)).toContain('RUNS')
    expect(kinds(await answer<Setup>(['setup']))).toEqual(['same'])
  })

  test('shows a difference without applying it, applies it, and takes it back', async () => {
    await answer(['setup'])
    const more = { BATON_RUN_EVENTS: '20000' }
    expect(kinds(await answer<Setup>(['setup', '--dry-run'], more))).toContain('update')
    expect(kinds(await answer<Setup>(['setup', '--dry-run']))).toEqual(['same'])
    await answer(['setup'], more)
    expect(kinds(await answer<Setup>(['setup', '--dry-run'], more))).toEqual(['same'])
    await answer(['setup'])
  })

  test('refuses a change that deletes stored messages, and changes nothing', async () => {
    await answer(['setup'])
    await nats.js.publish('topic.kept', 'one')
    const less = { BATON_TOPIC_EVENTS: '1', BATON_RUN_EVENTS: '20000' }
    const refused = await baton(['setup'], less)
    expect(refused.code).toBe(1)
    expect(refused.output).toMatch(/nothing was changed: TOPICS\.max_msgs_per_subject/)
    expect(kinds(await answer<Setup>(['setup', '--dry-run']))).toEqual(['same'])
  })
})

describe('baton runs', () => {
  beforeEach(async () => void (await answer(['setup'])))

  test('adds, lists, shows and cancels', async () => {
    const url = 'http://127.0.0.1:9/jobs/1/stream'
    const add = ['runs', 'add', url, '--run', 'one', '--label', 'team:blue']
    expect(await answer(add)).toEqual({ run: 'one', created: true })
    expect(await answer(add)).toEqual({ run: 'one', created: false })
    expect((await baton(['runs', 'add', `${url}2`, '--run', 'one'])).code).toBe(1)
    expect(await answer(['runs', 'ls', '--label', 'team:blue'])).toMatchObject([{ run: 'one', state: 'waiting' }])
    expect(await answer(['runs', 'ls', '--label', 'team:red'])).toEqual([])
    expect(await answer(['runs', 'show', 'one'])).toMatchObject({
      run: 'one',
      head: null,
      registration: { labels: { team: 'blue' } },
    })
    await answer(['runs', 'cancel', 'one'])
    expect(await answer(['runs', 'show', 'one'])).toMatchObject({ registration: { cancel: true } })
  })

  test('says 4 for a run there is not, 2 for what cannot be used', async () => {
    expect((await baton(['runs', 'show', 'nobody'])).code).toBe(4)
    expect((await baton(['runs', 'cancel', 'not/an/id'])).code).toBe(4)
    expect((await baton(['runs', 'add', 'no-url'])).code).toBe(2)
    expect((await baton(['runs', 'add'])).code).toBe(2)
    expect((await baton(['runs', 'ls', '--state', 'happy'])).code).toBe(2)
    expect((await baton(['fly'])).code).toBe(2)
  })

  test('says 3 where NATS is not, 2 where the environment is wrong, each in a sentence', async () => {
    const nowhere = await baton(['runs', 'ls'], { BATON_NATS_URL: 'nats://user:hidden@127.0.0.1:9' })
    expect(nowhere.code).toBe(3)
    expect(nowhere.output).toContain('NATS does not answer at nats://user:…@127.0.0.1:9')
    expect(nowhere.output).not.toContain('hidden')
    const wrong = await baton(['runs', 'ls'], { BATON_RELPICAS: '3' })
    expect(wrong.code).toBe(2)
    expect(wrong.output).toContain('BATON_RELPICAS: no such variable')
    const lost = await baton(['runs', 'ls'], { BATON_NATS_CREDS: '/no/such/file' })
    expect(lost.code).toBe(2)
    expect(lost.output).toContain('BATON_NATS_CREDS: no such file: /no/such/file')
  })

  test('a system whose parts would all refuse their environment is not started: 2', async () => {
    const data = await mkdtemp(join(tmpdir(), 'baton-up-'))
    const environment = { BATON_RELPICAS: '3', BATON_BEAT_MS: 'often', BATON_STALL_MS: '0' }
    const { code, output } = await baton(['up', '--no-demo', '--data', data], environment)
    await rm(data, { recursive: true })
    expect(code).toBe(2)
    for (const name of Object.keys(environment)) expect(output).toContain(`${name}: `)
    expect(output).not.toContain('has ended')
  })

  test('nor is one of which a part would, by what only it looks at; what it is given in place of the settings is fine', async () => {
    const data = await mkdtemp(join(tmpdir(), 'baton-up-'))
    const wrong = {
      BATON_CLAIM_RENEW_MS: '9000',
      BATON_AUTH: 'jwt',
      BATON_UPSTREAM_ALLOW: 'no host',
      BATON_QUIET_MS: '4000000',
    }
    const replaced = { BATON_HOST: '0.0.0.0', BATON_RELAY_ID: 'not a name' }
    await using up = startBaton(server.url, ['up', '--no-demo', '--data', data], { ...wrong, ...replaced })
    await eventually('it ends by itself', () => up.exit !== null, { withinMs: 20_000 })
    await rm(data, { recursive: true, force: true })
    expect(up.exit).toEqual({ code: 2, signal: null })
    const said = up.output.split('\n').filter((line) => line.startsWith('  '))
    expect(said).toEqual([
      expect.stringContaining('BATON_AUTH: jwt needs keys'),
      expect.stringContaining('BATON_JWT_ISSUERS: '),
      expect.stringContaining('BATON_QUIET_MS: must be at most BATON_PROGRESS_TTL_MS'),
      expect.stringContaining('BATON_CLAIM_TTL_MS: must be at least 3 × BATON_CLAIM_RENEW_MS'),
      expect.stringContaining('BATON_UPSTREAM_ALLOW: no host is neither'),
    ])
  })

  test.each([['ls'], ['show', 'one'], ['cancel', 'one']])(
    'says that nothing was set up, in place of what it cannot find there: runs %s',
    async (...args) => {
      await using empty = await NatsServer.start()
      const { code, output } = await baton(['runs', ...args], { BATON_NATS_URL: empty.url })
      expect(code).toBe(1)
      expect(output).toBe(`there is nothing of Baton at ${empty.url}: \`baton setup\` makes it\n`)
    },
  )
})

describe('baton doctor', () => {
  type Finding = { readonly what: string; readonly verdict: string; readonly detail: string }
  const findings = async (environment: Record<string, string> = {}) => {
    const { code, output } = await baton(['--json', 'doctor'], environment)
    const found = JSON.parse(output.split('\n')[0] ?? '') as Finding[]
    return { code, of: (what: string) => found.find((one) => one.what === what) }
  }

  test('finds what is wrong: a record, a stream that differs, nobody who relays', async () => {
    await answer(['setup'])
    await writeKey(nats, BUCKET.runs, 'broken', '{"url": 7}')
    const { code, of } = await findings({ BATON_RUN_EVENTS: '20000' })
    expect(code).toBe(1)
    expect(of('run broken')).toMatchObject({ verdict: 'wrong', detail: expect.stringContaining('url') })
    expect(of('RUNS')).toMatchObject({ verdict: 'wrong', detail: expect.stringContaining('max_msgs_per_subject') })
    expect(of('TOPICS')).toMatchObject({ verdict: 'good' })
    expect(of('relays')).toMatchObject({ verdict: 'wrong' })
    expect(of('disconnect notice')).toMatchObject({ verdict: 'good' })
  })

  test('says that the disconnect notice is not in force where the server does not give it', async () => {
    await using silent = await NatsServer.start({ notices: false })
    await answer(['setup'], { BATON_NATS_URL: silent.url })
    const { of } = await findings({ BATON_NATS_URL: silent.url })
    expect(of('disconnect notice')).toMatchObject({ verdict: 'note' })
  })

  test('names a wrong environment and looks no further', async () => {
    const { code, of } = await findings({ BATON_REPLICAS: '2' })
    expect(code).toBe(1)
    expect(of('environment')).toMatchObject({ verdict: 'wrong', detail: expect.stringContaining('BATON_REPLICAS') })
    expect(of('NATS')).toBeUndefined()
  })
})
