import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { allVariables, secretPattern } from '@baton/service/variables'
import { root } from '../kit/find-binary.ts'

const read = (file: string) => readFileSync(join(root, file), 'utf8')
const found = (pattern: string) => globSync(pattern, { cwd: root, exclude: (path) => path.includes('node_modules') })

const documents = ['*.md', 'apps/*/*.md', 'deploy/*.md', 'libs/*/*.md', 'nats/*.md', 'test/*/*.md'].flatMap(found)
const tests = found('test/**/*.ts')

/** Where one is not, whoever has set it as the documents say cannot start anything with `npm start`. */
test('every variable that a document names, or a test reads, may stand in the environment of an app', () => {
  const named = documents.flatMap((file) => read(file).match(/\bBATON_[A-Z][A-Z_]*[A-Z]\b/g) ?? [])
  const asked = tests.flatMap((file) => [
    ...Array.from(read(file).matchAll(/process\.env\['(BATON_\w+)'\]/g), ([, name = '']) => name),
    ...Array.from(read(file).matchAll(/findBinary\([^()]*'(BATON_\w+)'\)/g), ([, name = '']) => name),
  ])
  expect(named).toEqual(expect.arrayContaining(['BATON_CHROMIUM', 'BATON_NATS_URL']))
  expect(asked).toEqual(expect.arrayContaining(['BATON_PYTHON', 'BATON_NATS_SERVER']))
  const unknown = [...named, ...asked].filter((name) => !allVariables.has(name) && !secretPattern.test(name))
  expect([...new Set(unknown)].sort()).toEqual([])
})
