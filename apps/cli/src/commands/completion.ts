import tab from '@bomb.sh/tab/commander'
import type { Command } from 'commander'
import { COMPLETE } from '../completable-runs.ts'
import { HELP_TOPICS } from '../help-topics.ts'
import { examples } from '../parse-argument.ts'

/**
 * `baton completion <shell>`: the shell asks this program, by a hidden command, so what it offers is what there is.
 * Comes last: it looks at all other commands.
 */
export function completionCommand(program: Command, runs: readonly string[]): void {
  const offered = tab(program, { completionCommandName: 'completion' })
  offered.commands.get('help')?.argument('what', (offer) => {
    const shown = program.commands.filter((command) => command.name() !== COMPLETE)
    for (const command of shown) offer(command.name(), command.description())
    for (const [name, { what }] of Object.entries(HELP_TOPICS)) offer(name, what)
  })
  for (const command of offered.commands.values()) {
    if (command.arguments.has('run')) command.argument('run', (offer) => runs.forEach((run) => offer(run, '')))
  }
  program.commands
    .find((command) => command.name() === 'completion')
    ?.description('print what has a shell complete this command: bash, zsh, fish or powershell')
    .addHelpText(
      'after',
      '\nbash needs the package bash-completion; zsh needs, before its line,\nautoload -Uz compinit && compinit',
    )
    .addHelpText(
      'after',
      examples(
        'source <(baton completion bash)    # in ~/.bashrc',
        'source <(baton completion zsh)     # in ~/.zshrc',
        'baton completion fish > ~/.config/fish/completions/baton.fish',
      ),
    )
}
