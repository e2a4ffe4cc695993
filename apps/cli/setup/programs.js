// @ts-check
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { execute, isExecutable, onPath } from './execute.js'
import { showing } from './say.js'
import { isAtLeast, readVersion } from './version.js'

/**
 * A program written in Go that Baton needs and npm does not have.
 * @typedef {{
 *   name: string,
 *   floor: readonly [number, number, number],
 *   module: string,
 *   pinned: string,
 *   image: string,
 *   pathInImage: string,
 * }} Program
 */

/** @type {Program} */
export const natsServer = {
  name: 'nats-server',
  floor: [2, 12, 0],
  module: 'github.com/nats-io/nats-server/v2',
  pinned: 'v2.15.2',
  image: 'nats:2.15.2',
  pathInImage: '/nats-server',
}

/** The nats CLI: what operators use, and what some tests look at Baton with. @type {Program} */
export const natsCli = {
  name: 'nats',
  floor: [0, 3, 0],
  module: 'github.com/nats-io/natscli/nats',
  pinned: 'v0.5.0',
  image: 'natsio/nats-box:latest',
  pathInImage: '/usr/local/bin/nats',
}

/** @typedef {{ path: string, version: string }} Found */

/**
 * What the program at this path says it is; null unless it runs and is new enough.
 * @param {Program} program
 * @param {string} path
 * @returns {Promise<Found | null>}
 */
export async function inspect(program, path) {
  if (!isExecutable(path)) return null
  const { ok, output } = await execute(path, ['--version'], { timeoutMs: 10_000 })
  const version = ok ? readVersion(output) : null
  return version !== null && isAtLeast(version, program.floor) ? { path, version: version.join('.') } : null
}

/**
 * The first usable one on the PATH, else the one the set-up brought earlier.
 * @param {Program} program
 * @param {string} folder where the set-up puts programs
 * @returns {Promise<Found | null>}
 */
export async function find(program, folder) {
  const own = join(folder, program.name)
  for (const path of [...onPath(program.name).filter((path) => path !== own), own]) {
    const found = await inspect(program, path)
    if (found !== null) return found
  }
  return null
}

/**
 * Brings the program: built by Go, else copied out of the official image by a running Docker engine.
 * @param {Program} program
 * @param {string} folder
 * @param {(pid: number) => void} onPid told of every program that is started
 * @returns {Promise<{ found: Found } | { tried: string[] }>} what was tried and why it failed, a line each
 */
export async function bring(program, folder, onPid) {
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(folder)) {
    // What a set-up that was killed left behind.
    if (name.startsWith(`.${program.name}-`)) rmSync(join(folder, name), { recursive: true, force: true })
  }
  const draft = mkdtempSync(join(folder, `.${program.name}-`))
  try {
    /** @type {string[]} */
    const tried = []
    for (const way of [buildWithGo, copyFromImage]) {
      const failure = await way(program, draft, onPid)
      if (failure !== null) {
        tried.push(failure)
        continue
      }
      const found = await install(program, join(draft, program.name), folder)
      if (found !== null) return { found }
      tried.push(`${program.name} was brought, but does not run on this machine`)
    }
    return { tried }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/**
 * Checked first, moved into place last: a program in the folder is always whole.
 * @param {Program} program
 * @param {string} draft
 * @param {string} folder
 */
async function install(program, draft, folder) {
  chmodSync(draft, 0o755)
  if ((await inspect(program, draft)) === null) return null
  const path = join(folder, program.name)
  renameSync(draft, path)
  return inspect(program, path)
}

/** @param {string} folder */
const cachesOf = (folder) => join(folder, '.go')

/**
 * When all is brought: what Go has downloaded and compiled for one program saves the next a quarter of its time, and is of
 * no use any more.
 * @param {string} folder
 */
export const dropCaches = (folder) => rmSync(cachesOf(folder), { recursive: true, force: true })

/**
 * Go's module and build caches go beside the result: nothing is left outside of the checkout.
 * @param {Program} program
 * @param {string} draft
 * @param {(pid: number) => void} onPid
 * @returns {Promise<string | null>} why not
 */
async function buildWithGo(program, draft, onPid) {
  const go = [...onPath('go'), '/usr/local/go/bin/go'].find(isExecutable)
  if (go === undefined) return 'Go: not on the PATH'
  const caches = cachesOf(dirname(draft))
  const env = {
    ...process.env,
    GOBIN: draft,
    GOPATH: caches,
    GOMODCACHE: join(caches, 'mod'),
    GOCACHE: join(caches, 'build'),
    GOFLAGS: '-modcacherw',
    CGO_ENABLED: '0',
  }
  const target = `${program.module}@${program.pinned}`
  const { ok, output } = await showing(`building ${program.name} ${program.pinned} with Go (a minute or two)`, () =>
    execute(go, ['install', '-trimpath', '-ldflags=-s -w', target], { env, cwd: draft, onPid }),
  )
  return ok ? null : `Go: go install ${target} failed: ${lastLine(output)}`
}

/**
 * @param {Program} program
 * @param {string} draft
 * @param {(pid: number) => void} onPid
 * @returns {Promise<string | null>} why not
 */
async function copyFromImage(program, draft, onPid) {
  const docker = onPath('docker')[0]
  if (docker === undefined) return 'Docker: not on the PATH'
  const engine = await execute(docker, ['version', '--format', '{{.Server.Version}}'], { timeoutMs: 15_000 })
  if (!engine.ok) return 'Docker: installed, but no engine is running'
  return showing(`copying ${program.name} out of the image ${program.image}`, async () => {
    const idFile = join(draft, 'container')
    const made = await execute(docker, ['create', '--cidfile', idFile, program.image], { onPid })
    if (!made.ok) return `Docker: docker create ${program.image} failed: ${lastLine(made.output)}`
    const container = readFileSync(idFile, 'utf8').trim()
    const copied = await execute(docker, ['cp', '-L', `${container}:${program.pathInImage}`, join(draft, program.name)])
    await execute(docker, ['rm', '--force', container])
    return copied.ok ? null : `Docker: docker cp failed: ${lastLine(copied.output)}`
  })
}

/** @param {string} output */
const lastLine = (output) => output.trim().split('\n').at(-1) ?? ''
