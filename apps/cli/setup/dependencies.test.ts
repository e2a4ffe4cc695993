import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { dependenciesLack } from './dependencies.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-dependencies-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const hono = { version: '4.0.0', integrity: 'sha512-a' }
const windows = { version: '1.0.0', integrity: 'sha512-b', optional: true }

function checkout(wanted: Record<string, object>, installed: Record<string, object> | null): void {
  const lock = (packages: Record<string, object>) => JSON.stringify({ packages: { '': {}, ...packages } })
  writeFileSync(join(folder, 'package-lock.json'), lock(wanted))
  if (installed === null) return
  for (const path of Object.keys(installed)) {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'package.json'), '{}')
  }
  writeFileSync(join(folder, 'node_modules', '.package-lock.json'), lock(installed))
}

test('an install as the lock file says lacks nothing', () => {
  checkout({ 'node_modules/hono': hono, 'node_modules/win': windows }, { 'node_modules/hono': hono })
  expect(dependenciesLack(folder)).toBeNull()
})

test('an install that was cut off has no list yet', () => {
  checkout({ 'node_modules/hono': hono }, null)
  mkdirSync(join(folder, 'node_modules', 'hono'), { recursive: true })
  expect(dependenciesLack(folder)).toBe('they are not installed')
})

test.each([
  ['another version', { 'node_modules/hono': { ...hono, version: '4.0.1' } }, 'hono has changed'],
  ['another content', { 'node_modules/hono': { ...hono, integrity: 'sha512-c' } }, 'hono has changed'],
  ['a new package', { 'node_modules/hono': hono, 'node_modules/@a/zod': hono }, '@a/zod is new'],
  ['a package less', {}, 'hono is no longer wanted'],
])('the lock file asks for %s', (_, wanted, said) => {
  checkout(wanted, { 'node_modules/hono': hono })
  expect(dependenciesLack(folder)).toBe(said)
})

test('a package that was removed by hand is missed', () => {
  checkout({ 'node_modules/hono': hono }, { 'node_modules/hono': hono })
  rmSync(join(folder, 'node_modules', 'hono'), { recursive: true })
  expect(dependenciesLack(folder)).toBe('hono is gone')
})

test('a command of ours that is not linked is missed', () => {
  checkout({ 'apps/cli': { bin: { baton: './baton.js' } }, 'node_modules/hono': hono }, { 'node_modules/hono': hono })
  expect(dependenciesLack(folder)).toBe('the command baton is not linked')
  mkdirSync(join(folder, 'node_modules', '.bin'))
  writeFileSync(join(folder, 'node_modules', '.bin', 'baton'), '')
  expect(dependenciesLack(folder)).toBeNull()
})

test('a checkout without a lock file is said to be broken', () => {
  expect(() => dependenciesLack(folder)).toThrow('restore it from git')
})
