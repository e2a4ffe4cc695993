import { InvalidArgumentError } from 'commander'
import { CommandError } from './exit.ts'

/** What stands on the command line, as values; each says what is wrong where it is none. */

export function count(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('must be a whole number.')
  return Number(text)
}

export function port(text: string): number {
  const value = count(text)
  if (value < 1 || value > 65_535) throw new InvalidArgumentError('must be a port, 1 to 65535.')
  return value
}

/** For options that may be given several times. */
export const collect = (value: string, before: readonly string[] = []): string[] => [...before, value]

export function pair(text: string): [string, string] {
  const at = text.indexOf(':')
  if (at < 1) throw new CommandError('usage', `--label ${text}: must be key:value`)
  return [text.slice(0, at), text.slice(at + 1)]
}

/** A command's own examples, under its help. */
export const examples = (...lines: string[]): string => `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`
