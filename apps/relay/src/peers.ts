import { hostname } from 'node:os'
import type { Beat } from '@baton/core/records'
import { mayAccuse, nobodyConvicts, silenceConvicts, suspicion } from '@baton/core/suspicion'
import { pause } from '@baton/service/sleep'
import type { Log } from '@baton/service/log'
import type { Nats } from '@baton/store/connect'
import { answerPings, onBeats, onDisconnects, ping, sendBeat } from '@baton/store/peers'

const PING_TIMEOUT_MS = 150
/** A boot found dead is remembered this long, so that its claims are not asked about again; boots never come back. */
const DEAD_KEPT_MS = 600_000
/** A process that was stopped this long knows nothing about anybody and begins to listen anew. */
const ASLEEP_MS = 1000
const RECONNECT_EVERY_MS = 5000

export type PeersDeps = {
  readonly nats: Nats
  readonly relay: string
  readonly boot: string
  readonly beatMs: number
  readonly runs: () => number
  readonly draining: () => boolean
  /** Called once for each boot found dead, and with how it was found. */
  readonly onDead: (boot: string, how: 'notice' | 'silence' | 'ping') => void
  readonly log: Log
}

type Peer = { beat: Beat; seenAtMs: number }

/**
 * The other relays, as this process hears them on core NATS: beats, the server's disconnect notices, pings. It says
 * who is probably dead; a claim by revision and the owner record decide.
 */
export class Peers {
  readonly #deps: PeersDeps
  readonly #peers = new Map<string, Peer>()
  readonly #dead = new Map<string, number>()
  readonly #asking = new Set<string>()
  #ownBeatAtMs = 0
  #connectedAtMs = 0
  /** When this process last came back to NATS; never, while its first connection lasts. */
  #returnedAtMs = -Infinity
  #curedAtMs = 0
  #loopLagMs = 0

  constructor(deps: PeersDeps) {
    this.#deps = deps
  }

  /** Beats, listens and judges until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { nats, boot, beatMs } = this.#deps
    this.#connectedAtMs = this.#ownBeatAtMs = performance.now()
    answerPings(nats, boot, signal)
    onBeats(nats, (beat) => this.#hear(beat), signal)
    onDisconnects(nats, (gone) => void this.#ask(gone, 'notice', signal), signal)
    void this.#followConnection(signal)
    for (let dueAtMs = performance.now(); !signal.aborted; dueAtMs += beatMs) {
      await pause(Math.max(0, dueAtMs - performance.now()), signal)
      const lateMs = Math.max(0, performance.now() - dueAtMs)
      if (lateMs > ASLEEP_MS) this.#wakeUp()
      this.#loopLagMs = lateMs
      if (lateMs > beatMs) dueAtMs = performance.now()
      if (!signal.aborted) sendBeat(nats, this.#beat())
      this.#judge(signal)
    }
  }

  /** Boots taken to be alive, this one first; without the draining ones, which claim nothing. */
  live(): string[] {
    const others = [...this.#peers.values()].filter(({ beat }) => !beat.draining).map(({ beat }) => beat.boot)
    return this.#deps.draining() ? others : [this.#deps.boot, ...others]
  }

  /** Beats out of turn: what has just changed, e.g. that this relay drains, decides who claims what next. */
  announce(): void {
    sendBeat(this.#deps.nats, this.#beat())
  }

  loads(): Beat[] {
    return [this.#beat(), ...[...this.#peers.values()].map(({ beat }) => beat)]
  }

  holder(boot: string): 'me' | 'alive' | 'dead' | 'unknown' {
    if (boot === this.#deps.boot) return 'me'
    if (this.#dead.has(boot)) return 'dead'
    return this.#peers.has(boot) ? 'alive' : 'unknown'
  }

  /** For a claim of a boot never heard of: is anybody there? */
  async askUnknown(boot: string, signal: AbortSignal): Promise<void> {
    await this.#ask(boot, 'ping', signal)
  }

  get loopLagMs(): number {
    return this.#loopLagMs
  }

  #beat(): Beat {
    const { relay, boot, runs, draining } = this.#deps
    const loopLagMs = Math.round(this.#loopLagMs)
    return { relay, boot, pid: process.pid, host: hostname(), runs: runs(), draining: draining(), loopLagMs }
  }

  #hear(beat: Beat): void {
    const now = performance.now()
    if (beat.boot === this.#deps.boot) {
      this.#ownBeatAtMs = now
      return
    }
    // A word from the dead: it was slow, not gone. Its runs are others' now; it will find out by its claims.
    this.#dead.delete(beat.boot)
    if (!this.#peers.has(beat.boot)) this.#deps.log.info({ peer: beat.relay, peer_boot: beat.boot }, 'peer.joined')
    this.#peers.set(beat.boot, { beat, seenAtMs: now })
  }

  /** After a sleep every peer looks silent: give all of them a new start. */
  #wakeUp(): void {
    const now = performance.now()
    for (const peer of this.#peers.values()) peer.seenAtMs = now
    this.#connectedAtMs = now
  }

  #judge(signal: AbortSignal): void {
    const now = performance.now()
    const { beatMs } = this.#deps
    for (const [boot, atMs] of this.#dead) if (now - atMs > DEAD_KEPT_MS) this.#dead.delete(boot)
    if (!this.#mayAccuse()) return this.#cureDeafness(now)
    const silent = [...this.#peers].filter(([, peer]) => suspicion(now - peer.seenAtMs, beatMs) === 'silent')
    for (const [boot, peer] of this.#peers) {
      const sinceMs = now - peer.seenAtMs
      const doubt = suspicion(sinceMs, beatMs)
      if (doubt === 'trust') continue
      // It held nothing and wanted nothing more (a watchdog that is done, a relay that has drained): it left, it did not die.
      if (doubt === 'silent' && peer.beat.draining && peer.beat.runs === 0) this.#peers.delete(boot)
      else if (doubt === 'silent' && silenceConvicts(sinceMs, beatMs, silent.length - 1)) this.#bury(boot, 'silence')
      else void this.#ask(boot, 'silence', signal)
    }
  }

  /** A relay that does not hear itself sits on a dead or paused connection: the client is told to make a new one. */
  #cureDeafness(now: number): void {
    const deafMs = now - this.#ownBeatAtMs
    if (deafMs < 10 * this.#deps.beatMs || now - this.#curedAtMs < RECONNECT_EVERY_MS) return
    this.#curedAtMs = now
    this.#deps.log.warn({ deaf_ms: Math.round(deafMs) }, 'nats.deaf')
    void this.#deps.nats.nc.reconnect().catch(() => undefined)
  }

  #mayAccuse(): boolean {
    const now = performance.now()
    return mayAccuse({
      loopLagMs: this.#loopLagMs,
      sinceOwnBeatMs: now - this.#ownBeatAtMs,
      sinceConnectedMs: now - this.#connectedAtMs,
      beatMs: this.#deps.beatMs,
    })
  }

  async #ask(boot: string, how: 'notice' | 'silence' | 'ping', signal: AbortSignal): Promise<void> {
    if (boot === this.#deps.boot || this.#dead.has(boot) || this.#asking.has(boot)) return
    this.#asking.add(boot)
    try {
      // Two answers of "nobody" a moment apart: a client that merely reconnects is back by then.
      for (let asked = 0; asked < 2; asked++) {
        const answer = await ping(this.#deps.nats, boot, PING_TIMEOUT_MS)
        if (signal.aborted) return
        const peer = this.#peers.get(boot)
        if (answer === 'alive' && peer !== undefined) peer.seenAtMs = performance.now()
        if (answer !== 'nobody') {
          // Silence of a boot whose beats we know is judged by its beats; one never heard of has no others.
          if (answer === 'silent' && how === 'ping' && asked === 1 && this.#mayAccuse()) this.#bury(boot, how)
          if (answer === 'silent' && how === 'ping') continue
          return
        }
        if (how === 'notice' || asked === 1) break
        await pause(50, signal)
      }
      if (nobodyConvicts(performance.now() - this.#returnedAtMs)) this.#bury(boot, how)
    } finally {
      this.#asking.delete(boot)
    }
  }

  #bury(boot: string, how: 'notice' | 'silence' | 'ping'): void {
    if (this.#dead.has(boot)) return
    const peer = this.#peers.get(boot)
    this.#peers.delete(boot)
    this.#dead.set(boot, performance.now())
    this.#deps.log.warn({ peer: peer?.beat.relay ?? null, peer_boot: boot, how }, 'peer.dead')
    this.#deps.onDead(boot, how)
  }

  async #followConnection(signal: AbortSignal): Promise<void> {
    for await (const status of this.#deps.nats.nc.status()) {
      if (signal.aborted) return
      if (status.type === 'reconnect') this.#connectedAtMs = this.#returnedAtMs = performance.now()
    }
  }
}
