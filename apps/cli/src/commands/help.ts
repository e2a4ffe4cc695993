import type { Command } from 'commander'
import { CommandError } from '../exit.ts'
import { HELP_TOPICS } from '../help-topics.ts'
import { columns } from '../print.ts'
import type { Tools } from '../surroundings.ts'

/** `baton help <anything>`: a command, however deep, or a topic. */
export function helpCommand(program: Command, { write }: Tools): void {
  program
    .helpCommand(false)
    .addHelpText('after', topics())
    .command('help')
    .description('show the help of a command or a topic')
    .argument('[what...]', 'a command (runs add), or a topic')
    .action((what: readonly string[]) => {
      const name = what.join('-')
      const topic = Object.hasOwn(HELP_TOPICS, name) ? HELP_TOPICS[name] : undefined
      if (topic === undefined) find(program, what).outputHelp()
      else write(topic.text)
    })
}

function find(program: Command, what: readonly string[]): Command {
  let found = program
  for (const [at, word] of what.entries()) {
    const next = found.commands.find((one) => one.name() === word || one.aliases().includes(word))
    // What follows the name of a command that has no others is an argument of it.
    if (next === undefined && found.commands.length === 0) return found
    if (next === undefined) throw new CommandError('usage', `there is no help on ${what.slice(0, at + 1).join(' ')}`)
    found = next
  }
  return found
}

const topics = (): string =>
  `\nTopics (baton help <topic>):\n${columns(Object.entries(HELP_TOPICS).map(([name, { what }]) => ['', name, what]))}`
