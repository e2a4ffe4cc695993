import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { bring, find, natsServer, type Program } from './programs.js'

let folder = ''
let own = ''
const path = process.env['PATH']

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-programs-'))
  own = join(folder, 'own')
  mkdirSync(own)
  process.env['PATH'] = ''
})
afterEach(() => {
  process.env['PATH'] = path
  rmSync(folder, { recursive: true })
})

/** A shell script that is found on the PATH under this name. */
function onPath(name: string, script: string, where = join(folder, name + Math.random())): string {
  mkdirSync(where, { recursive: true })
  const file = join(where, name)
  writeFileSync(file, `#!/bin/sh\n${script}\n`)
  chmodSync(file, 0o755)
  process.env['PATH'] = `${process.env['PATH']}:${where}`
  return file
}
const says = (version: string) => `echo "nats-server: v${version}"`

/** As ours, of a module that no Go can build: what is tested here is what follows. */
const program: Program = { ...natsServer, module: 'example.invalid/none' }
const ignored = () => undefined

test('the first that runs and is new enough is taken', async () => {
  onPath('nats-server', says('2.9.10'))
  onPath('nats-server', 'exit 1')
  const good = onPath('nats-server', says('2.12.0'))
  onPath('nats-server', says('2.15.2'))
  expect(await find(program, own)).toEqual({ path: good, version: '2.12.0' })
})

test('what the set-up brought earlier comes after the PATH', async () => {
  const brought = onPath('nats-server', says('2.15.2'), own)
  process.env['PATH'] = ''
  expect(await find(program, own)).toEqual({ path: brought, version: '2.15.2' })
  const onThePath = onPath('nats-server', says('2.12.1'))
  expect((await find(program, own))?.path).toBe(onThePath)
})

test('Docker copies it out of the image where Go cannot build it, and the container goes', async () => {
  onPath('go', 'echo "go: cannot find module" >&2; exit 1')
  const log = join(folder, 'docker.log')
  const container = `printf 'c0ffee' > "$3"`
  const copy = `printf '#!/bin/sh\\n${says('2.15.2').replaceAll('"', '\\"')}\\n' > "$4"`
  onPath('docker', `echo "$@" >> ${log}\ncase "$1" in version) echo 28;; create) ${container};; cp) ${copy};; esac`)
  const result = await bring(program, own, ignored)
  expect(result).toEqual({ found: { path: join(own, 'nats-server'), version: '2.15.2' } })
  expect(readdirSync(own)).toEqual(['nats-server'])
})

test('an image for another machine is noticed, and nothing of it is kept', async () => {
  onPath('go', 'exit 1')
  onPath('docker', `case "$1" in version) echo 28;; create) printf x > "$3";; cp) printf 'not for here' > "$4";; esac`)
  const result = await bring(program, own, ignored)
  expect(result).toEqual({ tried: [expect.stringContaining('Go: '), expect.stringContaining('does not run')] })
  expect(readdirSync(own)).toEqual([])
})

test('each way that failed says why', async () => {
  onPath('go', 'echo "dial tcp: no route to host" >&2; exit 1')
  onPath('docker', 'exit 1')
  expect(await bring(program, own, ignored)).toEqual({
    tried: [expect.stringContaining('no route to host'), 'Docker: installed, but no engine is running'],
  })
})
