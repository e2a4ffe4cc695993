// @ts-check
import { spawn } from 'node:child_process'
import { constants } from 'node:os'

/** How often a command that npm started looks whether npm is still there. */
const LOOK_MS = 500

/**
 * Runs a command in this one's place: same terminal, same signals, same exit code.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<number>}
 */
export function handOver(command, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: 'inherit' })
    const pass = (/** @type {NodeJS.Signals} */ signal) => void child.kill(signal)
    // Ctrl-C reaches the whole group of a terminal, the child too: passing it on would be a second one.
    const ignore = () => undefined
    process
      .on('SIGTERM', pass)
      .on('SIGHUP', pass)
      .on('SIGINT', process.stdin.isTTY ? ignore : pass)
    const parent = process.ppid
    const looking = setInterval(() => {
      // npm was killed and cannot pass a signal on; without it nobody waits for this command any more.
      if (process.env.npm_lifecycle_event !== undefined && process.ppid !== parent) child.kill('SIGTERM')
    }, LOOK_MS)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearInterval(looking)
      process.off('SIGTERM', pass).off('SIGHUP', pass).off('SIGINT', pass).off('SIGINT', ignore)
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]))
    })
  })
}
