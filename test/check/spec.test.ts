import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const spec = readFileSync(join(root, 'libs/core/SPEC.md'), 'utf8')
const named = [...spec.matchAll(/^- `([^`]+\.test\.ts)`(?: — (.*))?$/gm)].map(([, path = '', name = '']) => ({
  path,
  name,
}))

test('every promise names tests', () => {
  const promises = spec.split(/^## /m).filter((section) => /^I\d/.test(section))
  expect(promises.map((section) => section.slice(0, 2))).toEqual(['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8'])
  for (const section of promises) expect(section).toMatch(/^- `[^`]+\.test\.ts`/m)
})

test.each(named)('$path has a test "$name…"', ({ path, name }) => {
  expect(existsSync(join(root, path)), `${path} does not exist`).toBe(true)
  const source = readFileSync(join(root, path), 'utf8')
  expect(source).toMatch(/\btest\b/)
  expect(source).toContain(name)
})
