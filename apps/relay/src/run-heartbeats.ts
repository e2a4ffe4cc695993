import type { Heartbeat } from '@baton/core/records'
import type { Nats } from '@baton/store/connect'
import { writeHeartbeat, type HeartbeatKind } from '@baton/store/heartbeats'

type Deps = {
  readonly nats: Nats
  readonly run: string
  readonly relay: string
  readonly writeMs: number
  readonly ttlMs: Readonly<Record<HeartbeatKind, number>>
}

/**
 * The two heartbeats of a run: at once when there was none from this owner, then at most one write each in `writeMs`,
 * however fast the bytes come. A write that fails is made good by the next sign.
 */
export class RunHeartbeats {
  readonly #deps: Deps
  readonly #writtenAtMs: Record<HeartbeatKind, number> = { liveness: -Infinity, progress: -Infinity }

  constructor(deps: Deps) {
    this.#deps = deps
  }

  beat(kind: HeartbeatKind, job: string): void {
    const { nats, run, relay, writeMs, ttlMs } = this.#deps
    const now = performance.now()
    if (now - this.#writtenAtMs[kind] < writeMs) return
    this.#writtenAtMs[kind] = now
    const value: Heartbeat = { relay, at: new Date().toISOString(), job }
    void writeHeartbeat(nats, kind, run, value, ttlMs[kind]).catch(() => {
      this.#writtenAtMs[kind] = -Infinity
    })
  }
}
