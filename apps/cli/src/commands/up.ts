import { resolve } from 'node:path'
import { Option, type Command } from 'commander'
import { count, examples, port } from '../parse-argument.ts'
import type { Tools } from '../surroundings.ts'
import type { UpOptions } from '../up/plan.ts'

type Flags = {
  port: number
  relays: number
  edges: number
  demo: boolean
  data: string
  nats?: string
  natsNodes: string
}

/** `baton up`: the whole system on this machine. */
export function upCommand(program: Command, { up, print, dataFolder }: Tools): void {
  program
    .command('up')
    .description('run the whole system on this machine until Ctrl-C: NATS, relays, edges, a watchdog, a demo agent')
    .option('--port <n>', 'of the first edge; the next ones follow', port, 8080)
    .option('--relays <n>', 'how many', count, 2)
    .option('--edges <n>', 'how many', count, 2)
    .option('--no-demo', 'without the agent and its runs')
    .option('--data <folder>', 'where the embedded NATS server keeps its data', dataFolder)
    .option('--nats <url>', 'use this NATS server in place of an embedded one')
    .addOption(new Option('--nats-nodes <n>', 'nodes of the embedded NATS').choices(['1', '3']).default('1'))
    .addHelpText('after', examples('baton up', 'baton up --no-demo --port 9000 --relays 3', 'baton up --nats-nodes 3'))
    .action((given: Flags) => up(optionsOf(given), print().json))
}

function optionsOf(given: Flags): UpOptions {
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
