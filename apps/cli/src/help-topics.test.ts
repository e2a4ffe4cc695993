import { expect, test } from 'vitest'
import { HELP_TOPICS } from './help-topics.ts'

test.each(Object.entries(HELP_TOPICS))('help on %s fits a terminal, as that of every command does', (_, { text }) => {
  for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80)
})
