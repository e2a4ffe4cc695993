import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { execute } from './execute.js'

const main = join(import.meta.dirname, 'main.js')

/** An npm script where no nats-server can be had: whatever sets up for more than its help fails. */
const script = (...args: string[]) =>
  execute(process.execPath, [main, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], BATON_NATS_SERVER: '/no/such/server' },
  })

test.each([
  ['setup', 'npm run setup'],
  ['start', 'Usage: baton up'],
  ['test', 'npm test -- --project unit'],
  ['check', 'npm run check'],
  ['chaos', 'npm run chaos -- --minutes M'],
  ['bench', 'npm run bench -- [name …]'],
])('%s --help answers at once, without what only the work itself needs', async (name, said) => {
  for (const flag of ['--help', '-h']) {
    const { ok, output } = await script(name, flag)
    expect({ ok, output }).toEqual({ ok: true, output: expect.stringContaining(said) })
    expect(output).not.toContain('baton: ')
  }
})

test('what stands behind -- is no wish for help', async () => {
  const { ok, output } = await script('start', '--', '--help')
  expect({ ok, output }).toEqual({ ok: false, output: expect.stringContaining('/no/such/server') })
})

test.each(['setup', 'test', 'check'])('%s --help answers in a checkout where nothing is installed', async (name) => {
  const checkout = await mkdtemp(join(tmpdir(), 'baton-bare-'))
  await cp(import.meta.dirname, join(checkout, 'apps/cli/setup'), { recursive: true })
  await writeFile(join(checkout, 'package.json'), '{"type":"module"}')
  const { ok, output } = await execute(process.execPath, [join(checkout, 'apps/cli/setup/main.js'), name, '--help'])
  expect({ ok, output }).toEqual({ ok: true, output: expect.stringMatching(/^npm /) })
  expect((await readdir(checkout)).toSorted()).toEqual(['apps', 'package.json'])
  await rm(checkout, { recursive: true })
})

test('bench measures nothing for a name that no bench has', async () => {
  const { ok, output } = await execute(process.execPath, [
    join(import.meta.dirname, '../../../test/bench/main.ts'),
    'takeovr',
  ])
  expect({ ok, output }).toEqual({ ok: false, output: expect.stringContaining('no bench is called takeovr') })
})
