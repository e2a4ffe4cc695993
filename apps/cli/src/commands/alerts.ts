import type { Command } from 'commander'
import { isRunId } from '@baton/core/ids'
import { followAlerts, readNewestAlerts, type StoredAlert } from '@baton/store/alerts'
import type { Nats } from '@baton/store/connect'
import { CommandError } from '../exit.ts'
import { count, examples } from '../parse-argument.ts'
import { pad, visible } from '../print.ts'
import type { Screen } from '../screen.ts'
import type { Tools } from '../surroundings.ts'
import { toneOf } from '../tone-of.ts'

type Flags = { readonly follow?: true; readonly run?: string; readonly last: number }

/** `baton alerts`: what watchdogs have told, oldest first. */
export function alertsCommand(program: Command, tools: Tools): void {
  program
    .command('alerts')
    .description('what watchdogs have found of runs: each change of a verdict, oldest first')
    .option('-f, --follow', 'go on with what is found from now on, until Ctrl-C')
    .option('--run <run>', 'only of this run')
    .option('--last <n>', 'so many of those there are', count, 100)
    .addHelpText('after', examples('baton alerts --run mine', 'baton alerts --follow --last 0 --json'))
    .action((given: Flags) => tools.inStore((nats) => alerts(nats, given, tools)))
}

async function alerts(nats: Nats, { follow, run, last }: Flags, tools: Tools): Promise<void> {
  if (run !== undefined && !isRunId(run)) throw new CommandError('usage', `${run} is no id of a run`)
  const { signal } = tools
  const print = tools.print()
  const show = (stored: StoredAlert) =>
    print.result({ sequence: stored.sequence, ...stored.alert }, line(stored, tools.screen))
  // One more than asked for: where following begins is known even where nothing is to be shown.
  const found = await readNewestAlerts(nats, run ?? null, last + 1)
  for (const stored of found.slice(-last || found.length)) show(stored)
  if (found.length === 0 && follow !== true && !print.json) tools.warn('no alerts')
  if (follow === true) await followAlerts(nats, { run: run ?? null, after: found.at(-1)?.sequence ?? 0 }, show, signal)
}

function line({ alert }: StoredAlert, { paint }: Pick<Screen, 'paint'>): string {
  const { run, verdict, previous, since, epoch } = alert
  const words = `${pad(previous, 12)} → ${paint(toneOf(verdict), pad(verdict, 12))}`
  return `${visible(since)}  ${words}  ${visible(run)}${epoch === null ? '' : `  epoch ${epoch}`}`
}
