import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { whileLocked } from './lock.js'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-lock-'))
  file = join(folder, 'setup.lock')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** The pid of a process that is dead for certain: it was ours, and its end was seen. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' })
  await once(child, 'exit')
  return child.pid ?? 0
}

const lockOf = (pid: number, host = hostname()) => JSON.stringify({ pid, host, token: 'theirs' })

test('of many that come at once one works at a time', async () => {
  let inside = 0
  let most = 0
  const work = async () => {
    most = Math.max(most, ++inside)
    await new Promise((resolve) => setImmediate(resolve))
    inside--
  }
  await Promise.all(Array.from({ length: 8 }, () => whileLocked(file, work)))
  expect(most).toBe(1)
  expect(readdirSync(folder)).toEqual([])
})

test('the lock of a dead process is taken over, by one of those who wait', async () => {
  writeFileSync(file, lockOf(await deadPid()))
  let inside = 0
  let most = 0
  const work = async () => {
    most = Math.max(most, ++inside)
    await new Promise((resolve) => setImmediate(resolve))
    inside--
    return true
  }
  const done = await Promise.all(Array.from({ length: 4 }, () => whileLocked(file, work)))
  expect(done).toEqual([true, true, true, true])
  expect(most).toBe(1)
})

test('the lock of a living process is waited for', async () => {
  writeFileSync(file, lockOf(process.pid))
  let done = false
  const working = whileLocked(file, async () => {
    done = true
  })
  await new Promise((resolve) => setTimeout(resolve, 400))
  expect(done).toBe(false)
  rmSync(file)
  await working
  expect(done).toBe(true)
})

test('what a dead holder had started is waited for too', async () => {
  const worker = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  writeFileSync(file, lockOf(await deadPid()))
  writeFileSync(`${file}.worker`, String(worker.pid))
  let done = false
  const working = whileLocked(file, async () => {
    done = true
  })
  await new Promise((resolve) => setTimeout(resolve, 400))
  expect(done).toBe(false)
  worker.kill('SIGKILL')
  await working
  expect(done).toBe(true)
})

test('a lock nobody has touched for a long time is taken over, whoever has its pid', async () => {
  writeFileSync(file, lockOf(process.pid, 'another-host'))
  const longAgo = new Date(Date.now() - 120_000)
  utimesSync(file, longAgo, longAgo)
  expect(await whileLocked(file, async () => 'worked')).toBe('worked')
})

test('work that fails gives the lock back', async () => {
  await expect(whileLocked(file, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(readdirSync(folder)).toEqual([])
})
