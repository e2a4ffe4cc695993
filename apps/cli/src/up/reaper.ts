import { createInterface } from 'node:readline'

/**
 * A process that outlives `baton up` by a few seconds and ends what it left behind. It is told on stdin which processes
 * live (`+pid`, `-pid`, a line each). When stdin closes, `baton up` is gone, also by kill -9, and nobody else would
 * end them: they run in groups of their own, and the kernel adopts them.
 */

const GRACE_MS = 5000
const LOOK_MS = 50

const living = new Set<number>()

// What ends `baton up` must not end this too.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

for await (const line of createInterface({ input: process.stdin })) {
  const pid = Number(line.slice(1))
  if (!(pid > 1)) continue
  if (line.startsWith('+')) living.add(pid)
  else living.delete(pid)
}

signalAll('SIGTERM')
for (let waitedMs = 0; living.size > 0 && waitedMs < GRACE_MS; waitedMs += LOOK_MS) {
  await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  signalAll(0)
}
signalAll('SIGKILL')

/** Signals all that still live, and forgets those that do not. */
function signalAll(signal: NodeJS.Signals | 0): void {
  for (const pid of living) {
    try {
      process.kill(pid, signal)
    } catch {
      living.delete(pid)
    }
  }
}
