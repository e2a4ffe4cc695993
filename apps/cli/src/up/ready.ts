import { connect } from 'node:net'
import { pause } from '@baton/service/sleep'

const EVERY_MS = 50

/** Waits until a process can be used: an HTTP route says 2xx, or a NATS server greets. False when time runs out first. */
export async function isReady(url: string, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const deadlineMs = performance.now() + withinMs
  while (!signal.aborted && performance.now() < deadlineMs) {
    if (url.startsWith('nats:') ? await greets(url) : await answers(url)) return true
    await pause(EVERY_MS, signal)
  }
  return false
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1000) })
    await response.body?.cancel()
    return response.ok
  } catch {
    return false
  }
}

/** A NATS server speaks first: a line that begins with INFO. */
function greets(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    const settle = (ready: boolean) => {
      socket.destroy()
      resolve(ready)
    }
    socket.setTimeout(1000, () => settle(false))
    socket.once('error', () => settle(false))
    socket.once('data', (bytes: Buffer) => settle(bytes.toString().startsWith('INFO')))
  })
}
