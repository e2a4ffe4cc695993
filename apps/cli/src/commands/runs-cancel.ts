import type { Command } from 'commander'
import { isRunId } from '@baton/core/ids'
import type { Nats } from '@baton/store/connect'
import { readRegistration, readStatus, requestCancel } from '@baton/store/registry'
import { CommandError } from '../exit.ts'
import type { Print } from '../print.ts'
import { endText, noSuchRun } from '../run-texts.ts'
import type { Tools } from '../surroundings.ts'

/** `baton runs cancel`: asks for the end of a run; its owner carries it out. */
export function runsCancelCommand(runs: Command, { inStore, print }: Tools): void {
  runs
    .command('cancel')
    .description('ask the owner of a run to end it, and its agent to stop')
    .argument('<run>', 'its id')
    .action((run: string) => inStore((nats) => cancelRun(nats, run, print())))
}

async function cancelRun(nats: Nats, run: string, print: Print): Promise<void> {
  if (!isRunId(run)) throw noSuchRun(run)
  const status = await readStatus(nats, run)
  if (status?.state === 'ended') {
    print.result({ run, state: 'ended', end: status.end }, `${run} has ended already: ${endText(status.end) ?? ''}`)
    return
  }
  if (!(await requestCancel(nats, run))) {
    if ((await readRegistration(nats, run)) === null) throw noSuchRun(run)
    throw new CommandError('wrong', `the record of ${run} is not valid: delete its key`)
  }
  print.result({ run, state: 'cancelling' }, `${run} will be cancelled by its owner`)
}
