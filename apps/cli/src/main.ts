import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CommanderError } from 'commander'
import { ConfigError, readConfig, type Environment } from '@baton/service/config'
import { CHECK_CONFIG } from '@baton/service/run-service'
import {
  allVariables,
  cliVariables,
  commonVariables,
  edgesOf,
  natsOf,
  secretPattern,
  topologyOf,
} from '@baton/service/variables'
import { execute } from '../setup/execute.js'
import { house, programs, root } from '../setup/places.js'
import { find, natsCli, natsServer } from '../setup/programs.js'
import { SetupError } from '../setup/say.js'
import { setUp } from '../setup/set-up.js'
import { CommandError, explain } from './exit.ts'
import { withStore } from './open-store.ts'
import { COMPLETE, completableRuns } from './completable-runs.ts'
import { readThresholds, thresholdComplaints, thresholdVariables } from '@baton/service/thresholds'
import { createProgram } from './program.ts'
import { createScreen } from './screen.ts'
import type { Surroundings } from './surroundings.ts'
import { OWN_NATS_CLI, upText } from './up/say-up.ts'
import { up } from './up/up.ts'
import { environments, type UpOptions } from './up/plan.ts'

const stop = new AbortController()
/** Aborts when waiting for an orderly end is over. */
const now = new AbortController()
/** Ctrl-C reaches this process from the terminal and once more from npm: those two are one wish. */
const SAME_WISH_MS = 1000

let askedAtMs = Number.NEGATIVE_INFINITY
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => {
    const nowMs = performance.now()
    if (stop.signal.aborted && nowMs - askedAtMs > SAME_WISH_MS) now.abort(new Error(`${name}, again`))
    if (stop.signal.aborted) return
    askedAtMs = nowMs
    stop.abort(new Error(name))
  })
}
// A reader that closes its end (`baton runs ls | head`) has seen enough.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
}

const variables = { ...commonVariables, ...cliVariables }
const config = (environment: Environment = process.env) =>
  readConfig(environment, variables, { others: allVariables, patterns: [secretPattern] })
const store = () => natsOf(config())

const around: Surroundings = {
  version: versionOf(join(import.meta.dirname, '..', 'package.json')),
  line: process.argv.slice(2),
  environment: process.env,
  store,
  topology: () => topologyOf(config()),
  thresholds: () =>
    readThresholds(
      readConfig(process.env, thresholdVariables, {
        others: allVariables,
        patterns: [secretPattern],
        relations: thresholdComplaints,
      }),
    ),
  edges: () => edgesOf(config()),
  complaints: () => complaints(process.env),
  programs: async () => [
    { name: 'nats-server', version: (await find(natsServer, programs))?.version ?? null, needed: false },
    { name: 'nats CLI', version: (await find(natsCli, programs))?.version ?? null, needed: false },
  ],
  up: runUp,
  checkConfig: (app) => checkConfig(app, process.env),
  dataFolder: join(house, 'data'),
  runIds: process.argv[2] === COMPLETE ? await completableRuns(store, stop.signal) : [],
  screen: createScreen(process.stdout),
  write: (line) => void process.stdout.write(`${line}\n`),
  warn: (line) => void process.stderr.write(`${line}\n`),
  signal: stop.signal,
}

function complaints(environment: Environment): readonly string[] {
  try {
    config(environment)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.complaints
  }
}

/** The app itself is asked: what it complains about is in its own code, and no app imports another. */
async function checkConfig(app: string, env: Environment): Promise<readonly string[]> {
  const main = join(root, 'apps', app, 'src', 'main.ts')
  const { ok, output } = await execute(process.execPath, [main, CHECK_CONFIG], { env, timeoutMs: 20_000 })
  if (ok) return []
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const complaints = lines.filter((line) => line.startsWith('  ')).map((line) => line.trim())
  return complaints.length > 0 ? complaints : lines
}

function versionOf(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}

/** What a part could not work with is said before one is started: it would end, or wait, and be started again for ever. */
async function lookBefore(options: UpOptions): Promise<void> {
  const { natsUrl } = options
  const environment = { ...process.env, BATON_NATS_URL: natsUrl ?? '' }
  const found = new Set([...complaints(environment), ...(await complaintsOfApps(options))])
  if (found.size > 0) throw new ConfigError([...found])
  if (natsUrl === null) return
  try {
    await withStore(natsOf(config(environment)), () => Promise.resolve(), stop.signal)
  } catch (error) {
    // One that does not answer is waited for, as by every part.
    if (!(error instanceof CommandError) || error.exit !== 'unreachable') throw error
    around.warn(error.message)
  }
}

/** Each app is a process of its own to ask, which takes a second; where nobody has set anything there is nothing to ask. */
async function complaintsOfApps(options: UpOptions): Promise<readonly string[]> {
  if (!Object.keys(process.env).some((name) => name.startsWith('BATON_'))) return []
  const { agent, ...others } = environments(options, process.env, options.natsUrl ?? '')
  const planned = Object.entries(options.demo ? { ...others, agent } : others)
  return (await Promise.all(planned.map(([app, env]) => checkConfig(app, env)))).flat()
}

async function runUp(options: UpOptions, json: boolean): Promise<void> {
  await lookBefore(options)
  around.warn('baton: starting …')
  const brought = await setUp({ server: options.natsUrl === null, cli: false })
  const cli = (await find(natsCli, programs))?.path ?? null
  const own = join(programs, natsCli.name)
  const place = {
    root,
    node: brought.node,
    natsServer: brought.natsServer?.path ?? '',
    env: process.env,
  }
  // Started by npm, this process has nobody left to serve when npm is gone, even by kill -9.
  const parent = process.ppid
  const looking = setInterval(() => {
    if (process.env['npm_execpath'] !== undefined && process.ppid !== parent) stop.abort(new Error('npm is gone'))
  }, 500)
  try {
    await up(
      options,
      place,
      (event) => {
        const text = json ? JSON.stringify(event) : upText(event, cli === own ? OWN_NATS_CLI : cli)
        if (text !== null) around.write(text)
      },
      now.signal,
      stop.signal,
    )
  } finally {
    clearInterval(looking)
  }
}

try {
  await createProgram(around).parseAsync(process.argv)
  process.exit(0)
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  const known = error instanceof SetupError ? { message: error.message, code: 1 } : explain(error)
  if (known === null) {
    if (stop.signal.aborted) process.exit(130)
    throw error
  }
  process.stderr.write(`${known.message}\n`)
  process.exit(known.code)
}
