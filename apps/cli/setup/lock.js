// @ts-check
import { randomUUID } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { say } from './say.js'

const TOUCH_MS = 2000
/** A lock nobody touched for this long belongs to nobody, whatever process has its pid by now. */
const STALE_MS = 60_000

/**
 * Does the work while no other set-up of this checkout does. Others wait. A lock whose holder died, here or on a
 * host that shares the folder, is taken over, but not before the program that the holder had started is gone too:
 * `work` names its pid, for an `npm ci` outlives a killed parent.
 * @template T
 * @param {string} file
 * @param {(onPid: (pid: number) => void) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function whileLocked(file, work) {
  const mine = JSON.stringify({ pid: process.pid, host: hostname(), token: randomUUID() })
  mkdirSync(dirname(file), { recursive: true })
  for (let told = false; !(await take(file, mine));) {
    if (!told) say('baton: another set-up of this checkout is running; waiting for it …')
    told = true
    await delay(200)
  }
  const touching = setInterval(() => touch(file), TOUCH_MS)
  try {
    return await work((pid) => writeFileSync(workerOf(file), String(pid)))
  } finally {
    clearInterval(touching)
    rmSync(workerOf(file), { force: true })
    if (read(file) === mine) rmSync(file, { force: true })
  }
}

/** @param {string} file */
const workerOf = (file) => `${file}.worker`

/**
 * @param {string} file
 * @param {string} mine
 */
async function take(file, mine) {
  if (create(file, mine)) return true
  const theirs = read(file)
  if (theirs === null || !isStale(file, theirs)) return false
  // Of several that judge the same lock stale one wins the rename; who moved a fresh lock by that puts it back.
  const aside = `${file}.${randomUUID()}`
  try {
    renameSync(file, aside)
  } catch {
    return false
  }
  const moved = read(aside)
  if (moved !== theirs) putBack(aside, file)
  rmSync(aside, { force: true })
  if (moved !== theirs || !create(file, mine)) return false
  await delay(50)
  return read(file) === mine
}

/**
 * @param {string} file
 * @param {string} text
 */
function create(file, text) {
  // Written beside and linked: a lock is never seen half-written.
  const draft = `${file}.${randomUUID()}`
  writeFileSync(draft, text)
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/**
 * @param {string} aside
 * @param {string} file
 */
function putBack(aside, file) {
  try {
    linkSync(aside, file)
  } catch {
    // A third has the lock by now; the one whose lock this was finds that out before it starts.
  }
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/** @param {string} file */
function touch(file) {
  try {
    utimesSync(file, new Date(), new Date())
  } catch {
    // Removed by hand: the work goes on, its steps are safe to repeat.
  }
}

/**
 * @param {string} file
 * @param {string} text
 */
function isStale(file, text) {
  try {
    if (Date.now() - statSync(file).mtimeMs > STALE_MS) return true
    const { pid, host } = JSON.parse(text)
    return host === hostname() && !isAlive(Number(pid)) && !isAlive(Number(read(workerOf(file)) ?? 0))
  } catch {
    return false
  }
}

/** @param {number} pid */
function isAlive(pid) {
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM'
  }
}
