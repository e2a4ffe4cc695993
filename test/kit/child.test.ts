import { expect, test } from 'vitest'
import { Child } from './child.ts'
import { eventually } from './eventually.ts'

test('its lines are heard one by one, whole, also those that its output is too long to keep', async () => {
  const lines: string[] = []
  const script = `
    process.stdout.write('the fi')
    setTimeout(() => {
      process.stdout.write('rst\\n' + ('x'.repeat(99) + '\\n').repeat(50_000) + 'the last\\n')
      process.stderr.write('an error\\n')
    }, 50)`
  await using child = new Child('talker', process.execPath, ['-e', script], {})
  child.eachLine((line) => void lines.push(line))
  await eventually('all is heard', () => lines.length === 50_003)
  expect(await child.exited).toEqual({ code: 0, signal: null })
  expect(child.output).not.toContain('the first')
  expect(lines).toEqual(expect.arrayContaining(['the first', 'the last', 'an error']))
})
