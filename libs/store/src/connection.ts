import type { Nats } from './connect.ts'

/** How the connection to NATS fares, for those who must act on it. */
export type Connection = {
  /** False from the moment it is known to be lost until it is back. */
  readonly connected: boolean
  /** Drops the connection and makes a new one, at most once in a while: the cure for one that only looks alive. */
  reconnect(): void
}

/** A connection that is made anew more often than this has no time to show that it works. */
const RECONNECT_PAUSE_MS = 5000

/** Follows the connection until the signal aborts; `onBack` is called after every reconnect. */
export function watchConnection(nats: Nats, onBack: () => void, signal: AbortSignal): Connection {
  let connected = true
  let forcedAtMs = Number.NEGATIVE_INFINITY
  const status = nats.nc.status()
  const stop = () => (status as unknown as { stop(): void }).stop()
  signal.addEventListener('abort', stop, { once: true })
  void (async () => {
    for await (const { type } of status) {
      if (type === 'disconnect' || type === 'close') connected = false
      if (type !== 'reconnect') continue
      connected = true
      onBack()
    }
  })()
  return {
    get connected() {
      return connected
    },
    reconnect() {
      const nowMs = performance.now()
      if (!connected || nowMs - forcedAtMs < RECONNECT_PAUSE_MS) return
      forcedAtMs = nowMs
      void nats.nc.reconnect().catch(() => undefined)
    },
  }
}
