import type { Command } from 'commander'
import { isRunId } from '@baton/core/ids'
import type { Nats } from '@baton/store/connect'
import { CommandError } from '../exit.ts'
import { count, examples } from '../parse-argument.ts'
import { noSuchRun } from '../run-texts.ts'
import type { Tools } from '../surroundings.ts'
import { linesDisplay, terminalDisplay } from '../watch/displays.ts'
import { watchRuns } from '../watch/watch-runs.ts'

type Flags = { readonly every: number }

/** `baton runs watch`: the life of runs, live. */
export function runsWatchCommand(runs: Command, tools: Tools): void {
  runs
    .command('watch')
    .description('watch runs live: state, owner, epoch, head, ages, verdict, takeovers')
    .argument('[run]', 'only this one, to its end; then 0 if it completed, else 1')
    .option('--every <ms>', 'how often ages and heads are read; what changes is shown at once', count, 1000)
    .addHelpText('after', columnsHelp + examples('baton runs watch', 'baton runs watch mine --json | jq -c .changed'))
    .action((run: string | undefined, given: Flags) => tools.inStore((nats) => watch(nats, run ?? null, given, tools)))
}

const columnsHelp = `
On a terminal it is redrawn in place; in a pipe, and with --json, each change is
a line. Runs that had ended before are left out, unless asked for.

  EPOCH    the owner record it writes under; HEAD: the newest index
  BYTE     since bytes last came from its agent; WORK: since it got somewhere
  VERDICT  what watchdogs say (baton help verdicts); how it ended, when it has
  TAKEN    how often another relay took it over while you watched
`

async function watch(nats: Nats, run: string | null, { every }: Flags, tools: Tools): Promise<void> {
  if (run !== null && !isRunId(run)) throw noSuchRun(run)
  const { screen, write, signal } = tools
  const { json } = tools.print()
  const display = !json && screen.size() !== null ? terminalDisplay(screen) : linesDisplay(json, write)
  const thresholds = tools.thresholds()
  try {
    const end = await watchRuns({ nats, run, everyMs: Math.max(100, every), thresholds, display }, signal)
    // Stopped before its end is not the same as completed; to watch all has no other end.
    if (end === null && run !== null) signal.throwIfAborted()
    if (end !== null && end.reason !== 'completed') throw new CommandError('wrong', `${run} ended: ${end.reason}`)
  } finally {
    display.close()
  }
}
