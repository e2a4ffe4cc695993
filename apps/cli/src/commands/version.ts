import { CommanderError, type Command } from 'commander'
import { optionsOf } from '../../setup/options.js'
import { createPrint } from '../print.ts'
import type { Tools } from '../surroundings.ts'

/** `baton version`, and `--version` for whoever tries that first. */
export function versionCommand(program: Command, tools: Tools): void {
  const { version, line, print } = tools
  program
    .command('version')
    .description('print the version')
    .action(() => print().result({ version }, version))
  program.option('-V, --version', 'print the version')
  // Answered as soon as it is met, whatever else is missing or wrong: a --json that stands behind it is not read by then.
  program.on('option:version', () => {
    createPrint(optionsOf(line).includes('--json'), tools).result({ version }, version)
    throw new CommanderError(0, 'commander.version', version)
  })
}
