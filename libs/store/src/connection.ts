import type { Nats } from './connect.ts'

/** How the connection to NATS fares, for those who must act on it. */
export type Connection = {
  /** False from the moment it is known to be lost until it is back. */
  readonly connected: boolean
  /** How long it has been lost; 0 while it is there. */
  readonly lostForMs: number
  /** Drops the connection and makes a new one, at most once in a while: the cure for one that only looks alive. */
  reconnect(): void
}

/** A connection that is made anew more often than this has no time to show that it works. */
const RECONNECT_PAUSE_MS = 5000

/** Follows the connection until the signal aborts; `onBack` is called after every reconnect. */
export function watchConnection(nats: Nats, onBack: () => void, signal: AbortSignal): Connection {
  let lostAtMs: number | null = null
  let forcedAtMs = Number.NEGATIVE_INFINITY
  const status = nats.nc.status()
  const stop = () => (status as unknown as { stop(): void }).stop()
  signal.addEventListener('abort', stop, { once: true })
  void (async () => {
    for await (const { type } of status) {
      if (type === 'disconnect' || type === 'close') lostAtMs ??= performance.now()
      if (type !== 'reconnect') continue
      lostAtMs = null
      onBack()
    }
  })()
  return {
    get connected() {
      return lostAtMs === null
    },
    get lostForMs() {
      return lostAtMs === null ? 0 : performance.now() - lostAtMs
    },
    reconnect() {
      const nowMs = performance.now()
      if (lostAtMs !== null || nowMs - forcedAtMs < RECONNECT_PAUSE_MS) return
      forcedAtMs = nowMs
      void nats.nc.reconnect().catch(() => undefined)
    },
  }
}
