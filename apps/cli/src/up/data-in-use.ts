import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { pause } from '@baton/service/sleep'
import { pidFileOf } from './plan.ts'

const LOOK_MS = 100

/**
 * The pid of a nats-server that works on this data; null when none does. A server whose `baton up` was killed is about
 * to end, so it is given a few seconds. Two servers on the same files would destroy them.
 */
export async function dataInUse(dataFolder: string, withinMs: number, signal: AbortSignal): Promise<number | null> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const pid = readPid(pidFileOf(dataFolder))
    if (pid === null || !commandOf(pid).includes('nats-server')) return null
    if (waitedMs >= withinMs) return pid
    await pause(LOOK_MS, signal)
    signal.throwIfAborted()
  }
}

function readPid(file: string): number | null {
  try {
    const pid = Number(readFileSync(file, 'utf8'))
    return pid > 1 ? pid : null
  } catch {
    return null
  }
}

/** What a pid stands for by now: it may have been given to somebody else. Empty when it is nobody's. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    try {
      return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8', stdio: 'pipe' })
    } catch {
      return ''
    }
  }
}
