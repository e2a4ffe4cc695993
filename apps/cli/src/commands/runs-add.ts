import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { parseRegistration } from '@baton/core/run'
import type { Nats } from '@baton/store/connect'
import { register } from '@baton/store/registry'
import { CommandError } from '../exit.ts'
import { collect, examples, pair } from '../parse-argument.ts'
import type { Print } from '../print.ts'
import type { Tools } from '../surroundings.ts'

type Flags = {
  run?: string
  file?: string
  resume?: string
  secret?: string
  cancel?: string
  label?: string[]
}

/** `baton runs add`: has a run relayed. */
export function runsAddCommand(runs: Command, { inStore, print }: Tools): void {
  runs
    .command('add')
    .description('register a run: a URL, or a whole registration as JSON from a file or stdin')
    .argument('[url]', 'of the event stream of its agent')
    .option('--run <id>', 'its id; a new one when left out')
    .option('--file <path>', 'a registration as JSON (baton help registration); - is stdin')
    .option('--resume <mode>', 'auto, last-event-id, replay or none')
    .option('--secret <name>', 'the relay sends its BATON_SECRET_<NAME> as a bearer token')
    .option('--cancel <url>', 'asked once when the run is cancelled')
    .option('--label <k:v>', 'may be given several times', collect)
    .addHelpText(
      'after',
      examples('baton runs add http://agent/jobs/1/stream --run mine', 'baton runs add --file run.json'),
    )
    .action((url: string | undefined, given: Flags) => {
      const body = registration(url, given)
      return inStore((nats) => addRun(nats, runId(given, body), body, print()))
    })
}

/** The same registration again changes nothing and is no failure. */
async function addRun(nats: Nats, run: string, body: unknown, print: Print): Promise<void> {
  const parsed = parseRegistration(run, body)
  if (!parsed.ok) throw new CommandError('usage', parsed.reason)
  const { created } = await register(nats, parsed.value)
  print.result({ run, created }, created ? `${run} is registered` : `${run} was registered already, with the same body`)
}

function registration(url: string | undefined, given: Flags): unknown {
  if ((url === undefined) === (given.file === undefined)) {
    throw new CommandError('usage', 'give the URL of the agent’s stream, or --file with a registration')
  }
  if (given.file !== undefined) return readJson(given.file)
  const labels = given.label === undefined ? {} : { labels: Object.fromEntries(given.label.map(pair)) }
  const { resume, secret, cancel } = given
  const set = (key: string, value: string | undefined) => (value === undefined ? {} : { [key]: value })
  return {
    url,
    ...set('resume', resume),
    ...set('secret', secret),
    ...set('cancel', cancel),
    ...labels,
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file === '-' ? 0 : file, 'utf8'))
  } catch (error) {
    throw new CommandError('usage', `${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function runId(given: Flags, body: unknown): string {
  const inBody = typeof body === 'object' && body !== null && 'run' in body ? body.run : undefined
  return given.run ?? (typeof inBody === 'string' ? inBody : randomUUID())
}
