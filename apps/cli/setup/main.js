// @ts-check
import { rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { endAll } from './execute.js'
import { handOver } from './hand-over.js'
import { compiled, programs, root } from './places.js'
import { say, SetupError } from './say.js'
import { helpText, asksForHelp } from './help.js'
import { setUp } from './set-up.js'
import { runTests } from './run-tests.js'

/** Each is an npm script; turbo runs them side by side and not again for what it has seen to be good. */
const checks = ['format', 'lint', 'types', 'rules', 'unused'].map((name) => `check:${name}`)

/**
 * Every npm script of the checkout comes through here, under whatever Node the machine has: first the set-up, then
 * the command under the pinned Node. Plain JavaScript without dependencies, for it is what installs them.
 * @type {Record<string, { want: import('./set-up.js').Want, run: readonly string[] }>}
 */
const commands = {
  setup: { want: { server: true, cli: true }, run: [] },
  start: { want: { server: true, cli: false }, run: ['apps/cli/src/main.ts', 'up'] },
  test: { want: { server: true, cli: true }, run: [] },
  check: {
    want: { server: false, cli: false },
    run: ['node_modules/turbo/bin/turbo', 'run', ...checks, '--continue', '--output-logs=errors-only'],
  },
  chaos: { want: { server: true, cli: false }, run: ['test/fault/chaos.ts'] },
  bench: { want: { server: true, cli: false }, run: ['test/bench/main.ts'] },
}

/**
 * @param {readonly string[]} argv
 * @returns {Promise<number>} the exit code
 */
async function main([name = '', ...args]) {
  const command = commands[name]
  if (command === undefined)
    throw new SetupError(`baton: no such command: ${name}; there are ${Object.keys(commands).join(', ')}`)
  const helping = asksForHelp(args)
  if (helping && name in helpText) {
    process.stdout.write(helpText[name] ?? '')
    return 0
  }
  const { run } = command
  const want = helping ? { server: false, cli: false } : command.want
  const stop = () => {
    endAll()
    process.exit(130)
  }
  process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop)
  const house = await setUp(want)
  process.off('SIGINT', stop).off('SIGTERM', stop).off('SIGHUP', stop)
  if (name === 'setup') {
    say(`baton: ready (Node: ${house.node}, nats-server ${house.natsServer?.version}: ${house.natsServer?.path})`)
    return 0
  }
  const env = {
    NODE_COMPILE_CACHE: compiled,
    ...process.env,
    TURBO_TELEMETRY_DISABLED: '1',
    PATH: [join(root, 'node_modules', '.bin'), programs, process.env.PATH ?? ''].join(delimiter),
    ...(house.natsServer === null ? {} : { BATON_NATS_SERVER: house.natsServer.path }),
  }
  if (name === 'test') return runTests(house.node, args, env)
  const code = await handOver(house.node, [...run, ...args], { cwd: root, env })
  // turbo leaves a copy of what each check said where nothing of ours should lie.
  if (name === 'check') rmSync(join(root, '.turbo'), { recursive: true, force: true })
  return code
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  say(error.message)
  process.exitCode = 1
}
