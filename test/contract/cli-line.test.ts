import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { storeAlert } from '@baton/store/alerts'
import { writeKey } from '@baton/store/bucket'
import { BUCKET } from '@baton/store/names'
import { baton as batonAt, batonAnswer } from '../kit/baton.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { Issuer, ISSUER } from '../kit/issuer.ts'
import { LogServer } from '../kit/log-server.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { startEdge } from '../kit/process.ts'

/** The command line itself: its help, what it says where, and how it behaves in a pipe. */

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start()
})
afterAll(() => log[Symbol.asyncDispose]())

const baton = (args: string[], environment: Record<string, string> = {}) =>
  batonAnswer(log.server.url, args, environment)

const inShell = (line: string) =>
  spawnSync('bash', ['-c', `set -o pipefail; ${line}`], {
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      BATON_NATS_URL: log.server.url,
      NODE: process.execPath,
      BATON: join(root, 'apps/cli/src/main.ts'),
    },
  })

test('help of a command, however deep, of a topic, and of what there is not; --version', async () => {
  const add = await baton(['help', 'runs', 'add'])
  expect(add).toMatchObject({ code: 0, output: expect.stringContaining('Usage: baton runs add [options] [url]') })
  const codes = await baton(['help', 'exit-codes'])
  expect(codes).toMatchObject({ code: 0, output: expect.stringContaining('there is no such run') })
  for (const word of ['fly', 'constructor']) {
    expect(await baton(['help', word])).toMatchObject({ code: 2, output: `there is no help on ${word}\n` })
  }
  expect(await baton(['--version'])).toMatchObject({ code: 0, output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
})

test.each([['version'], ['--version'], ['-V']])(
  '%s answers in JSON where that is asked for, before or behind it',
  async (word) => {
    const plain = await baton([word])
    expect(plain).toMatchObject({ code: 0, output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
    const version = { version: plain.output.trim() }
    for (const line of [
      ['--json', word],
      [word, '--json'],
    ]) {
      expect(await baton(line)).toMatchObject({ code: 0, lines: [version], output: `${JSON.stringify(version)}\n` })
    }
  },
)

test('what stands behind -- is no option, also for --version', async () => {
  expect(await baton(['--version', '--', '--json'])).toEqual(await baton(['--version']))
})

test('help and what a shell reads are text, --json or not, and the help says so', async () => {
  const { output } = await baton(['help'])
  expect(output).toMatch(/--json .*help and[ \n]+completion stay text/s)
  for (const line of [['help'], ['--help'], ['help', 'exit-codes'], ['runs', 'ls', '--help'], ['completion', 'bash']]) {
    const plain = await baton(line)
    expect(plain.code).toBe(0)
    expect(await baton(['--json', ...line])).toEqual(plain)
  }
})

describe('in a pipe', () => {
  test('a reader that has seen enough ends it in silence, of results and of messages', async () => {
    // More than a pipe holds, so that the writer still writes when the reader is gone.
    const record = JSON.stringify({ url: 'http://a/b', labels: { l: 'x'.repeat(2000) } })
    await Promise.all(Array.from({ length: 100 }, (_, at) => writeKey(log.nats, BUCKET.runs, `many-${at}`, record)))
    const listed = inShell('"$NODE" "$BATON" runs ls | head -n 2')
    expect(listed).toMatchObject({ status: 0, stderr: '' })
    expect(listed.stdout.split('\n')).toHaveLength(3)
    expect(inShell('"$NODE" "$BATON" --json runs ls | head -c 10')).toMatchObject({ status: 0, stderr: '' })
    expect(inShell('"$NODE" "$BATON" fly 2>&1 | head -c 0').stderr).toBe('')
  })

  test('nothing is cut and nothing coloured; asked for colours, it colours', async () => {
    const alert = { run: 'a', verdict: 'stalled', previous: 'quiet', since: '2026-01-01T00:00:00Z', epoch: 7 } as const
    await storeAlert(log.nats, alert, 0, 'test')
    const plain = await baton(['alerts'])
    expect(plain.output).toBe('2026-01-01T00:00:00Z  quiet        → stalled       a  epoch 7\n')
    expect((await baton(['alerts'], { FORCE_COLOR: '1' })).output).toContain('\u001b[31m')
  })

  test('what others have chosen cannot move a cursor', async () => {
    const label = '"labels":{"l":"\\u001b[2J"}'
    await writeKey(log.nats, BUCKET.runs, 'evil', `{"url":"http://a/b",${label}}`)
    const { output } = await baton(['runs', 'ls', '--label', 'l:\u001b[2J'])
    expect(output).toContain('l:\\x1b[2J')
    expect(output).not.toContain('\u001b')
  })
})

describe('baton alerts', () => {
  test('shows the newest of all or of one run, and follows', async () => {
    const say = (run: string, verdict: 'quiet' | 'running', expected: number) =>
      storeAlert(
        log.nats,
        { run, verdict, previous: 'running', since: new Date().toISOString(), epoch: null },
        expected,
        'test',
      )
    const first = await say('one', 'quiet', 0)
    await say('two', 'quiet', 0)
    await using following = batonAt(log.server.url, ['--json', 'alerts', '--run', 'one', '--follow'])
    await following.said(/"run":"one"/)
    await say('one', 'running', first)
    await following.said(/"verdict":"running"/)
    expect(following.output).not.toContain('two')
    expect((await baton(['--json', 'alerts', '--run', 'one'])).lines).toMatchObject([
      { run: 'one', verdict: 'quiet', sequence: first },
      { run: 'one', verdict: 'running', previous: 'running' },
    ])
    expect((await baton(['--json', 'alerts', '--last', '1'])).lines).toMatchObject([{ run: 'one', verdict: 'running' }])
    expect(await following.terminate()).toMatchObject({ code: 0 })
  })
})

describe('baton config check', () => {
  test('what an app would start with, secrets hidden', async () => {
    const environment = {
      BATON_NATS_URL: 'nats://me:hush@127.0.0.1:9',
      BATON_SECRET_AGENT: 'hush',
      BATON_QUIET_MS: '5',
    }
    const { code, output } = await baton(['--json', 'config', 'check'], environment)
    expect(code, output).toBe(0)
    expect(output).not.toContain('hush')
    const checked = JSON.parse(output) as { app: string; variables: { name: string }[] }[]
    expect(checked.map(({ app }) => app)).toEqual(['relay', 'edge', 'watchdog'])
    const of = (app: string) => checked.find((one) => one.app === app)?.variables
    expect(of('relay')).toContainEqual({ name: 'BATON_SECRET_AGENT', value: '[hidden]', from: 'environment' })
    expect(of('relay')).toContainEqual({ name: 'BATON_BEAT_MS', value: '200', from: 'default' })
    expect(of('watchdog')).toContainEqual({ name: 'BATON_QUIET_MS', value: '5', from: 'environment' })
  })

  test('every complaint of the app itself at once, and 2', async () => {
    const environment = { BATON_HOST: '0.0.0.0', BATON_CORS_ORIGINS: 'nowhere', BATON_PROT: '1' }
    const { code, output } = await baton(['config', 'check', 'edge'], environment)
    expect(code).toBe(2)
    for (const complaint of [
      'edge: would not start',
      'BATON_PROT: no such variable; did you mean BATON_PORT?',
      'BATON_CORS_ORIGINS: nowhere is no origin',
      'BATON_AUTH: must be given',
      'this environment does not do for: edge',
    ]) {
      expect(output).toContain(complaint)
    }
    expect((await baton(['config', 'check', 'fish'])).code).toBe(2)
  })
})

describe('completions', () => {
  const offered = async (...words: string[]) => {
    const { output } = await baton(['complete', '--', ...words])
    return output
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith(':'))
      .map((line) => line.split('\t')[0])
  }

  test('of commands, their options, choices, and the runs there are', async () => {
    await writeKey(log.nats, BUCKET.runs, 'completed-1', '{"url":"http://a/b"}')
    expect(await offered('runs', '')).toEqual(expect.arrayContaining(['ls', 'show', 'add', 'cancel']))
    expect(await offered('runs', 'ls', '--st')).toEqual(['--state'])
    expect(await offered('runs', 'ls', '--state', 'wai')).toEqual(['waiting'])
    expect(await offered('help', 'exit')).toEqual(['exit-codes'])
    expect(await offered('help', 'dr')).toEqual(['drain'])
    // A machine too busy to answer at a prompt offers none: the next tab does.
    for (const words of [
      ['runs', 'show'],
      ['tail', 'run'],
    ]) {
      const completed = async () => (await offered(...words, 'compl'))[0]
      await eventually(`${words.join(' ')} offers the run`, async () => (await completed()) === 'completed-1')
    }
  })

  test.each(['bash', 'zsh', 'fish', 'powershell'])('%s gets a script that asks this program', async (shell) => {
    const { code, output } = await baton(['completion', shell])
    expect(code).toBe(0)
    expect(output).toContain('complete')
    // Shells that are here read it themselves; through a pipe, for fish reads no socket.
    if (findBinary(shell) === null) return
    const read = inShell(`"$NODE" "$BATON" completion ${shell} | ${shell} -n`)
    expect(read).toMatchObject({ status: 0, stderr: '' })
  })

  test('bash asks with what was typed, and offers what fits', () => {
    // As the package bash-completion reads the line; it is not on every machine.
    const reader = `_get_comp_words_by_ref() { cur=\${COMP_WORDS[COMP_CWORD]}; words=("\${COMP_WORDS[@]}"); }`
    const self = `baton() { "$NODE" "$BATON" "$@"; }`
    const typed = `COMP_WORDS=(baton runs wa) COMP_CWORD=2; __baton_complete 2>/dev/null; echo "\${COMPREPLY[@]}"`
    const { stdout } = inShell([self, reader, 'source <(baton completion bash)', typed].join('\n'))
    expect(stdout).toBe('watch\n')
  })

  test('where NATS is away there are no runs, and no complaint', async () => {
    const { code, output } = await baton(['complete', '--', 'runs', 'show', ''], {
      BATON_NATS_URL: 'nats://127.0.0.1:9',
    })
    expect({ code, output }).toEqual({ code: 0, output: ':4\n' })
  })
})

test('stopped while an edge does not answer, `baton tail` ends with 130 and no word of trouble', async () => {
  const asked = Promise.withResolvers<void>()
  const mute = createServer(() => asked.resolve()).listen(0, '127.0.0.1')
  await once(mute, 'listening')
  const edge = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`
  await using child = batonAt(log.server.url, ['tail', 'run', 'mine', '--edge', edge])
  await asked.promise
  expect(await child.terminate()).toMatchObject({ code: 130 })
  expect(child.output).toBe('')
  mute.close()
})

test('a NATS server that does not let the user in is told from one that does not answer: 5, at once', async () => {
  await using guarded = await NatsServer.start({ users: true })
  const url = `nats://operator:guessed@127.0.0.1:${guarded.port}`
  const { code, output } = await baton(['runs', 'ls'], { BATON_NATS_URL: url })
  expect({ code, output }).toMatchObject({ code: 5, output: expect.stringContaining('does not let this user in') })
  expect(output).not.toContain('guessed')
})

describe('an edge that asks for a token', () => {
  test('gets the one of --token or BATON_TOKEN; without one, and for what is not granted, it is 5', async () => {
    await using issuer = await Issuer.start()
    await using edge = await startEdge('edge-1', {
      natsUrl: log.server.url,
      environment: { BATON_AUTH: 'jwt', BATON_JWKS_URL: issuer.url, BATON_JWT_ISSUERS: ISSUER },
    })
    const token = await issuer.sign({ baton: { subscribe: ['run:*', 'topic:orders.*'], publish: ['topic:orders.*'] } })
    const at = ['--edge', edge.url]
    const without = await baton(['tail', 'topic', 'orders.*', ...at])
    expect(without).toMatchObject({ code: 5, output: expect.stringContaining('the edge does not let you: ') })
    const elsewhere = await baton(['publish', 'labels.1', 'x', ...at], { BATON_TOKEN: token })
    expect(elsewhere.code, elsewhere.output).toBe(5)
    await using following = batonAt(log.server.url, ['--json', 'tail', 'topic', 'orders.*', ...at, '--token', token])
    await following.said(/stream\.open/)
    const published = await baton(['--json', 'publish', 'orders.1', 'paid', ...at], { BATON_TOKEN: token })
    expect(published.lines).toMatchObject([{ topic: 'orders.1', stream: 'TOPICS', duplicate: false }])
    await following.said(/"data":"paid"/)
    for (const { output } of [without, elsewhere, following]) expect(output).not.toContain(token)
    // A run there is not is told from one that may not be seen.
    expect((await baton(['tail', 'run', 'nobody', ...at, '--token', token])).code).toBe(4)
  })
})
