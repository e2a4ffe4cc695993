// @ts-check
import { lstatSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { execute } from './execute.js'
import { SetupError, showing } from './say.js'

/** @typedef {{ version?: string, integrity?: string, link?: boolean, optional?: boolean, bin?: Record<string, string> }} Entry */
/** @typedef {{ packages: Record<string, Entry> }} LockFile */

/**
 * What is wrong with node_modules, measured by the lock file; null when nothing is. npm writes its own list
 * (`node_modules/.package-lock.json`) last, so an install that was cut off has an old list or none.
 * @param {string} folder of the checkout
 * @returns {string | null}
 */
export function dependenciesLack(folder) {
  const wanted = readLock(join(folder, 'package-lock.json'))
  if (wanted === null) throw new SetupError('baton: package-lock.json is missing or not JSON: restore it from git')
  const installed = readLock(join(folder, 'node_modules', '.package-lock.json'))
  if (installed === null) return 'they are not installed'
  for (const [path, want] of packagesOf(wanted)) {
    const have = installed.packages[path]
    if (have === undefined) {
      // A package for another platform is in the lock file and never here.
      if (want.optional === true) continue
      return `${nameOf(path)} is new`
    }
    if (have.version !== want.version || have.integrity !== want.integrity) return `${nameOf(path)} has changed`
    if (!exists(join(folder, path))) return `${nameOf(path)} is gone`
  }
  const unlinked = commandsOf(wanted).find((name) => !isThere(join(folder, 'node_modules', '.bin', name)))
  if (unlinked !== undefined) return `the command ${unlinked} is not linked`
  const dropped = packagesOf(installed).find(([path]) => !(path in wanted.packages))
  return dropped === undefined ? null : `${nameOf(dropped[0])} is no longer wanted`
}

/**
 * Installs exactly what the lock file says. Development and platform packages are asked for by name: NODE_ENV or a
 * user's npm settings may leave them out.
 * @param {string} folder
 * @param {string} reason
 * @param {(pid: number) => void} onPid
 */
export async function installDependencies(folder, reason, onPid) {
  const flags = ['--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error']
  const { command, args } = npm(['ci', ...flags])
  const { ok, output } = await showing(`installing the dependencies with npm ci (${reason})`, () =>
    execute(command, args, { cwd: folder, onPid }),
  )
  if (!ok)
    throw new SetupError(
      `${output.trim()}\nbaton: npm ci failed; the reason stands above. The first set-up needs the npm registry`,
    )
}

/** @param {readonly string[]} args */
function npm(args) {
  const { npm_execpath: script } = process.env
  if (script !== undefined && basename(script) === 'npm-cli.js') {
    return { command: process.execPath, args: [script, ...args] }
  }
  return { command: 'npm', args }
}

/**
 * @param {LockFile} lock
 * @returns {[string, Entry][]}
 */
const packagesOf = (lock) => Object.entries(lock.packages).filter(([path]) => path.includes('node_modules/'))

/**
 * The commands of our own packages, which npm links for `npx`.
 * @param {LockFile} lock
 */
const commandsOf = (lock) =>
  Object.entries(lock.packages).flatMap(([path, { bin }]) =>
    path.includes('node_modules/') ? [] : Object.keys(bin ?? {}),
  )

/** @param {string} path */
const nameOf = (path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

/**
 * @param {string} file
 * @returns {LockFile | null}
 */
function readLock(file) {
  try {
    const value = JSON.parse(readFileSync(file, 'utf8'))
    return typeof value?.packages === 'object' && value.packages !== null ? value : null
  } catch {
    return null
  }
}

/** @param {string} path */
function isThere(path) {
  try {
    return lstatSync(path) !== undefined
  } catch {
    return false
  }
}

/** @param {string} folder */
function exists(folder) {
  try {
    const found = lstatSync(folder)
    return found.isSymbolicLink() || lstatSync(join(folder, 'package.json')).isFile()
  } catch {
    return false
  }
}
