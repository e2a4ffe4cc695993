import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const spec = readFileSync(join(root, 'libs/core/SPEC.md'), 'utf8')
const namedIn = (text: string) =>
  [...text.matchAll(/^- `([^`]+\.test\.ts)`(?: — (.*))?$/gm)].map(([, path = '', name = '']) => ({ path, name }))
const named = namedIn(spec)

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

const sections = spec.split(/^## /m)
const sectionOf = (name: string) => sections.find((one) => one.startsWith(`${name} `)) ?? ''
const judges = namedIn(sectionOf('The checker')).filter(({ name }) => name === '')
const ofJudges = new Set(judges.map(({ path }) => path))

/** Each file with the promises that titles of its tests begin with; what tests the judges of promises stands in a section of its own. */
const holding = globSync(['{libs,apps}/*/src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root })
  .filter((path) => !ofJudges.has(path))
  .flatMap((path) => {
    const titles = readFileSync(join(root, path), 'utf8').matchAll(/\(\s*['"`](I\d(?:,? I\d)*): /g)
    const promises = new Set(Array.from(titles, ([, numbers = '']) => numbers.match(/I\d/g) ?? []).flat())
    return Array.from(promises, (promise) => ({ path, promise }))
  })

test('the tests that say by their title that they hold a promise are found', () => {
  expect(holding).toContainEqual({ path: 'test/fault/fault-run.test.ts', promise: 'I5' })
})

test.each(holding)('$path holds an $promise, which names it', ({ path, promise }) => {
  expect(namedIn(sectionOf(promise)).map((one) => one.path)).toContain(path)
})
