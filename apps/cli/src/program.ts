import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { TopologyOptions } from '@baton/store/topology'
import { doctor, type Program } from './commands/doctor.ts'
import { relays } from './commands/relays.ts'
import { addRun, cancelRun, listRuns, showRun, type RunState } from './commands/runs.ts'
import { setup } from './commands/setup.ts'
import { publish } from './commands/publish.ts'
import { tail } from './commands/tail.ts'
import { CommandError, EXIT } from './exit.ts'
import { withStore, type StoreOptions } from './open-store.ts'
import { createPrint, type Print } from './print.ts'
import type { UpOptions } from './up/plan.ts'

/** What the commands need of the process they run in. */
export type Surroundings = {
  readonly store: () => StoreOptions
  readonly topology: () => TopologyOptions
  readonly complaints: () => readonly string[]
  readonly programs: () => Promise<readonly Program[]>
  readonly up: (options: UpOptions, json: boolean) => Promise<void>
  readonly dataFolder: string
  readonly write: (line: string) => void
  /** For what is no result. */
  readonly warn: (line: string) => void
  readonly signal: AbortSignal
}

const EDGE = 'http://127.0.0.1:8080'

/** The command line: what there is to say and what each of it does. */
export function createProgram(around: Surroundings): Command {
  const { signal } = around
  const program = new Command('baton')
    .description('Relays live event streams of agent runs to any number of readers, over NATS JetStream.')
    .option('--json', 'write JSON, one value a line, for programs')
    .showHelpAfterError('(baton --help, or --help after a command, says more)')
    .addHelpText('after', helpOfExits())
    .exitOverride()
  const print = (): Print => createPrint(program.opts<{ json?: boolean }>().json === true, around.write)
  const inStore = (work: Parameters<typeof withStore<void>>[1]) => withStore(around.store(), work, signal)

  program
    .command('up')
    .description('run the whole system on this machine until Ctrl-C: NATS, relays, edges, a demo agent')
    .option('--port <n>', 'of the first edge; the next ones follow', port, 8080)
    .option('--relays <n>', 'how many', count, 2)
    .option('--edges <n>', 'how many', count, 2)
    .option('--no-demo', 'without the agent and its runs')
    .option('--data <folder>', 'where the embedded NATS server keeps its data', around.dataFolder)
    .option('--nats <url>', 'use this NATS server in place of an embedded one')
    .addOption(new Option('--nats-nodes <n>', 'nodes of the embedded NATS').choices(['1', '3']).default('1'))
    .action(async (given: UpFlags) => around.up(upOptions(given), print().json))

  program
    .command('setup')
    .description('make the streams and buckets on BATON_NATS_URL, or bring them to what they should be')
    .option('--dry-run', 'only show the difference', false)
    .option('--allow-loss', 'also make changes that delete stored messages', false)
    .action((given: { dryRun: boolean; allowLoss: boolean }) =>
      inStore((nats) => setup(nats, { ...around.topology(), ...given }, print())),
    )

  addRunCommands(program, inStore, print, signal)

  program
    .command('relays')
    .description('list the relays that are alive')
    .option('--listen <ms>', 'for how long; a relay beats every 200 ms unless told otherwise', count, 600)
    .action((given: { listen: number }) => inStore((nats) => relays(nats, given.listen, print(), signal)))

  addTopicCommands(program, inStore, print, around)

  program
    .command('doctor')
    .description('look for what is wrong with the environment, the NATS server, the streams and the registry')
    .action(async () => {
      const [programs, complaints] = [await around.programs(), around.complaints()]
      const target = complaints.length > 0 ? null : { store: around.store(), topology: around.topology() }
      await doctor({ target, programs, complaints }, print(), signal)
    })
  return program
}

function addTopicCommands(
  program: Command,
  inStore: (work: Parameters<typeof withStore<void>>[1]) => Promise<void>,
  print: () => Print,
  { warn, signal }: Surroundings,
): void {
  const following = program.command('tail').description('follow events; comes back by itself when an edge goes away')
  following
    .command('run')
    .description('print the events of a run to its end')
    .argument('<run>')
    .option('--edge <url>', `an edge (default: ${EDGE}); give several and any of them will do`, collect, [])
    .option('--from <position>', 'start, now, an index, or -<count>', 'start')
    .option('--last-event-id <id>', 'go on after this position')
    .option('--types <a,b>', 'only events of these types')
    .action(async (run: string, given: TailFlags) => {
      const query = { from: given.from, types: given.types ?? null }
      const target = { path: `/runs/${encodeURIComponent(run)}/events`, query, what: `run ${run}` }
      const reason = await tail({ ...target, ...tailOptions(given), onTrouble: warn }, print(), signal)
      if (reason !== null && reason !== 'completed') throw new CommandError('wrong', `${run} ended: ${reason}`)
    })
  following
    .command('topic')
    .description('print the events of topics, until Ctrl-C')
    .argument('<filter...>', 'a topic, or a NATS filter with * and >')
    .option('--edge <url>', `an edge (default: ${EDGE}); give several and any of them will do`, collect, [])
    .option('--from <position>', 'now, start, a sequence, -<count>, or a time (RFC 3339)', 'now')
    .option('--last-event-id <id>', 'go on after this position')
    .action(async (topic: string[], given: TailFlags) => {
      const target = { path: '/topics/events', query: { topic, from: given.from }, what: 'such topic' }
      await tail({ ...target, ...tailOptions(given), onTrouble: warn }, print(), signal)
    })
  program
    .command('publish')
    .description('store an event in a topic')
    .argument('<topic>')
    .argument('<data>', 'as it is; - is stdin')
    .option('--type <type>', 'shown in the envelope')
    .option('--key <key>', 'within 2 minutes the same key stores nothing more')
    .action((topic: string, data: string, given: { type?: string; key?: string }) => {
      const text = data === '-' ? readFileSync(0, 'utf8') : data
      const message = { topic, data: text, type: given.type ?? null }
      return inStore((nats) => publish(nats, message, given.key ?? null, print()))
    })
}

function addRunCommands(
  program: Command,
  inStore: (work: Parameters<typeof withStore<void>>[1]) => Promise<void>,
  print: () => Print,
  signal: AbortSignal,
): void {
  const runs = program.command('runs').description('what is tailed')
  runs
    .command('ls')
    .description('list the runs')
    .addOption(new Option('--state <state>', 'only these').choices(['waiting', 'running', 'ended', 'invalid']))
    .option('--label <k:v>', 'only those with this label')
    .action((given: { state?: RunState; label?: string }) =>
      inStore((nats) => listRuns(nats, { state: given.state ?? null, label: given.label ?? null }, print(), signal)),
    )
  runs
    .command('show')
    .description('show all that is known of a run')
    .argument('<run>')
    .action((run: string) => inStore((nats) => showRun(nats, run, print())))
  runs
    .command('add')
    .description('register a run: a URL, or a whole registration as JSON from a file or stdin')
    .argument('[url]', 'of the event stream of its agent')
    .option('--run <id>', 'its id; a new one when left out')
    .option('--file <path>', 'a registration as JSON; - is stdin')
    .option('--resume <mode>', 'auto, last-event-id, replay or none')
    .option('--secret <name>', 'the relay sends BATON_SECRET_<NAME> as a bearer token')
    .option('--cancel <url>', 'asked once when the run is cancelled')
    .option('--label <k:v>', 'may be given several times', collect, [])
    .action((url: string | undefined, given: AddFlags) => {
      const body = registration(url, given)
      return inStore((nats) => addRun(nats, runId(given, body), body, print()))
    })
  runs
    .command('cancel')
    .description('ask the owner of a run to end it')
    .argument('<run>')
    .action((run: string) => inStore((nats) => cancelRun(nats, run, print())))
}

type UpFlags = {
  port: number
  relays: number
  edges: number
  demo: boolean
  data: string
  nats?: string
  natsNodes: string
}

function upOptions(given: UpFlags): UpOptions {
  const { port, relays, edges, demo } = given
  return {
    port,
    relays,
    edges,
    demo,
    dataFolder: resolve(given.data),
    natsUrl: given.nats ?? null,
    natsNodes: given.natsNodes === '3' ? 3 : 1,
  }
}

type TailFlags = { edge: string[]; from: string; lastEventId?: string; types?: string }

function tailOptions(given: TailFlags) {
  const edges = given.edge.length === 0 ? [EDGE] : given.edge
  const wrong = edges.find((edge) => !/^https?:\/\/./.test(edge) || !URL.canParse(edge))
  if (wrong !== undefined) throw new CommandError('usage', `--edge ${wrong}: must be an http URL`)
  return { edges, lastEventId: given.lastEventId ?? null }
}

type AddFlags = {
  run?: string
  file?: string
  resume?: string
  secret?: string
  cancel?: string
  label: string[]
}

function registration(url: string | undefined, given: AddFlags): unknown {
  if ((url === undefined) === (given.file === undefined)) {
    throw new CommandError('usage', 'give the URL of the agent’s stream, or --file with a registration')
  }
  if (given.file !== undefined) return readJson(given.file)
  const labels = Object.fromEntries(given.label.map(pair))
  const { resume, secret, cancel } = given
  const set = (key: string, value: string | undefined) => (value === undefined ? {} : { [key]: value })
  return {
    url,
    ...set('resume', resume),
    ...set('secret', secret),
    ...set('cancel', cancel),
    ...(given.label.length === 0 ? {} : { labels }),
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file === '-' ? 0 : file, 'utf8'))
  } catch (error) {
    throw new CommandError('usage', `${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function runId(given: AddFlags, body: unknown): string {
  const inBody = typeof body === 'object' && body !== null && 'run' in body ? body.run : undefined
  return given.run ?? (typeof inBody === 'string' ? inBody : randomUUID())
}

function pair(text: string): [string, string] {
  const at = text.indexOf(':')
  if (at < 1) throw new CommandError('usage', `--label ${text}: must be key:value`)
  return [text.slice(0, at), text.slice(at + 1)]
}

const collect = (value: string, before: string[]): string[] => [...before, value]

function count(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('must be a whole number.')
  return Number(text)
}

function port(text: string): number {
  const value = count(text)
  if (value < 1 || value > 65_535) throw new InvalidArgumentError('must be a port, 1 to 65535.')
  return value
}

const helpOfExits = (): string =>
  `\nExit codes:\n${Object.values(EXIT)
    .map(({ code, means }) => `  ${code}  ${means}`)
    .join('\n')}\n`
