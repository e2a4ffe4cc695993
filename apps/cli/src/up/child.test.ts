import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Child, type ChildListener } from './child.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-child-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A child of this shell line, how often it was started, and how long each start after a death took. */
function childOf(line: string, onStart: (pid: number) => void) {
  const waitsMs: number[] = []
  let endedAtMs: number | null = null
  const listener: ChildListener = {
    onStart(_spec, pid) {
      if (endedAtMs !== null) waitsMs.push(performance.now() - endedAtMs)
      onStart(pid)
    },
    onEnd() {
      endedAtMs = performance.now()
    },
  }
  const spec = {
    name: 'one',
    command: '/bin/sh',
    args: ['-c', line],
    env: process.env,
    cwd: folder,
    url: '',
    readyUrl: '',
  }
  return { child: new Child({ ...spec, logFile: join(folder, 'one.log') }, listener), waitsMs }
}

/** Lets it die ten times. */
async function dyingTenTimes(line: string, onStart: (pid: number) => void): Promise<readonly number[]> {
  const { child, waitsMs } = childOf(line, onStart)
  const kept = child.keep()
  await expect.poll(() => waitsMs.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(10)
  await child.stop(1000, AbortSignal.abort())
  await kept
  return waitsMs
}

test.each(['SIGKILL', 'SIGTERM'] as const)(
  'a child killed with %s again and again is there again at once each time',
  async (signal) => {
    const waitsMs = await dyingTenTimes('exec sleep 60', (pid) => process.kill(pid, signal))
    expect(Math.max(...waitsMs)).toBeLessThan(700)
  },
  90_000,
)

test('one that cannot live is started less often, but within a second', async () => {
  const waitsMs = await dyingTenTimes('exit 3', () => undefined)
  const [shortest, longest] = [Math.min(...waitsMs), Math.max(...waitsMs)]
  expect(longest).toBeGreaterThan(2 * shortest)
  expect(longest).toBeLessThan(2000)
}, 90_000)
