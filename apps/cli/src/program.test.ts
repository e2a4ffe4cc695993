import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from './program.ts'

/** Nothing is run here: only what the command line says of itself. */
const program = createProgram({
  version: '1.2.3',
  line: [],
  environment: {},
  store: () => ({ servers: [], creds: undefined }),
  topology: () => {
    throw new Error('nobody sets anything up here')
  },
  thresholds: () => {
    throw new Error('nobody judges here')
  },
  edges: () => ({}),
  complaints: () => [],
  programs: () => Promise.resolve([]),
  up: () => Promise.resolve(),
  checkConfig: () => Promise.resolve([]),
  dataFolder: '/data',
  runIds: ['mine'],
  screen: { size: () => null, paint: (_tone, text) => text, write: () => undefined },
  write: () => undefined,
  warn: () => undefined,
  signal: new AbortController().signal,
})

/** What `baton help <path>` prints. */
function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp()
  return text
}

function every(command: Command, path: readonly string[] = []): [string, Command][] {
  const nested = command.commands.flatMap((one) => every(one, [...path, one.name()]))
  return path.length === 0 ? nested : [[path.join(' '), command], ...nested]
}

describe('the help of every command', () => {
  const commands = every(program).filter(([path]) => path !== 'complete')

  test('there is one of each', () => {
    const names = commands.map(([path]) => path)
    expect(names).toEqual(expect.arrayContaining(['up', 'runs watch', 'drain', 'alerts', 'config check', 'tail topic']))
  })

  test.each(commands)(
    '%s: a sentence, every argument and option explained, nothing wider than 80 columns',
    (path, command) => {
      const help = helpOf(command)
      expect(help).toMatch(new RegExp(`^Usage: baton ${path}`))
      expect(command.description()).not.toBe('')
      for (const argument of command.registeredArguments) expect(argument.description, argument.name()).not.toBe('')
      for (const option of command.options) expect(option.description, option.flags).not.toBe('')
      expect(help.split('\n').filter((line) => line.length > 80)).toEqual([])
      expect(help, 'a default that says nothing').not.toMatch(/default: (\[\]|false)/)
    },
  )
})
