import { Command } from 'commander'
import { alertsCommand } from './commands/alerts.ts'
import { completionCommand } from './commands/completion.ts'
import { configCheckCommand } from './commands/config-check.ts'
import { doctorCommand } from './commands/doctor.ts'
import { drainCommand } from './commands/drain.ts'
import { helpCommand } from './commands/help.ts'
import { publishCommand } from './commands/publish.ts'
import { relaysCommand } from './commands/relays.ts'
import { runsAddCommand } from './commands/runs-add.ts'
import { runsCancelCommand } from './commands/runs-cancel.ts'
import { runsLsCommand } from './commands/runs-ls.ts'
import { runsShowCommand } from './commands/runs-show.ts'
import { runsWatchCommand } from './commands/runs-watch.ts'
import { setupCommand } from './commands/setup.ts'
import { tailCommand } from './commands/tail.ts'
import { upCommand } from './commands/up.ts'
import { versionCommand } from './commands/version.ts'
import { createTools, type Surroundings } from './surroundings.ts'

/** The command line: one file for each command, in the order in which the help shows them. */
export function createProgram(around: Surroundings): Command {
  const program = new Command('baton')
    .description('Relays live event streams of agent runs to any number of readers, over NATS JetStream.')
    .option('--json', 'write results as JSON, one a line; anywhere on the line; help and completion stay text')
    .showHelpAfterError('(baton --help, or --help after a command, says more)')
    .exitOverride()
  const tools = createTools(program, around)

  upCommand(program, tools)
  setupCommand(program, tools)
  const runs = program.command('runs').description('what is tailed: list, watch, add and cancel').helpCommand(false)
  runsLsCommand(runs, tools)
  runsShowCommand(runs, tools)
  runsWatchCommand(runs, tools)
  runsAddCommand(runs, tools)
  runsCancelCommand(runs, tools)
  alertsCommand(program, tools)
  relaysCommand(program, tools)
  drainCommand(program, tools)
  tailCommand(program, tools)
  publishCommand(program, tools)
  doctorCommand(program, tools)
  configCheckCommand(program, tools)
  helpCommand(program, tools)
  versionCommand(program, tools)
  completionCommand(program, around.runIds)
  return program
}
