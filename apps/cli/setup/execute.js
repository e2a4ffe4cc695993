// @ts-check
import { spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** What is kept of a program's output: the end, where the reason stands. */
const KEPT_CHARS = 8000

/** Programs that are running now. @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set()

/** Ends what `execute` has started: a set-up that is told to stop leaves nobody working behind its back. */
export function endAll() {
  for (const child of running) child.kill('SIGTERM')
}

/**
 * Runs a program to its end and collects what it says. Never rejects: a program that cannot be started is a failure
 * like any other.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs?: number, onPid?: (pid: number) => void }} [options]
 * @returns {Promise<{ ok: boolean, output: string }>}
 */
export function execute(command, args, options = {}) {
  const { timeoutMs = 0, onPid = () => undefined, ...rest } = options
  return new Promise((resolve) => {
    let output = ''
    const child = spawn(command, args, { ...rest, stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs })
    running.add(child)
    if (child.pid !== undefined) onPid(child.pid)
    const keep = (/** @type {Buffer} */ bytes) => void (output = (output + bytes.toString()).slice(-KEPT_CHARS))
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    child.once('error', (error) => {
      running.delete(child)
      resolve({ ok: false, output: error.message })
    })
    child.once('close', (code, signal) => {
      running.delete(child)
      resolve({ ok: code === 0, output: signal === null ? output : `${output}\nended by ${signal}` })
    })
  })
}

/**
 * Every program of this name on the PATH, in its order.
 * @param {string} name
 * @param {string} [path]
 * @returns {string[]}
 */
export function onPath(name, path = process.env.PATH ?? '') {
  const folders = path.split(delimiter).filter((folder) => folder !== '')
  return [...new Set(folders.map((folder) => join(folder, name)))].filter(isExecutable)
}

/** @param {string} file */
export function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
