import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createMutant } from './mutant.ts'
import { root } from '../kit/find-binary.ts'

const patch = {
  file: 'libs/core/src/position.ts',
  find: '`${sequence}-${mark}`',
  replace: '`${mark}-${sequence}`',
}

test('a mutant runs its own changed copy, and the source stays as it is', async () => {
  await using mutant = await createMutant([patch])
  const script = `import { formatPosition } from '@baton/core/position'; console.log(formatPosition({ sequence: 1, mark: 2 }))`
  const run = (cwd: string) => promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { cwd })
  expect((await run(join(mutant.source, 'apps', 'relay'))).stdout.trim()).toBe('2-1')
  expect((await run(root)).stdout.trim()).toBe('1-2')
  expect(await readFile(join(root, patch.file), 'utf8')).toContain(patch.find)
})

test('a text that is not in the source stops the test', async () => {
  await expect(createMutant([{ ...patch, find: 'no such text' }])).rejects.toThrow(/holds 0 times/)
})
