import { backoffMs } from '@baton/core/backoff'
import { BatonError, isCode } from '@baton/core/errors'
import type { Claim } from '@baton/core/records'
import { readKeyAtLeader } from './bucket.ts'
import { readClaim, releaseClaim, writeClaim } from './claim-store.ts'
import type { Nats } from './connect.ts'
import type { Log } from './log.ts'
import { BUCKET } from './names.ts'
import { sayReleased } from './peers.ts'
import { rest } from './rest.ts'

/**
 * A claim this process holds. Lost is an abort: everything of that run stops at once and writes nothing more. The
 * claim makes double work rare; that a zombie can write nothing is the owner record's doing, not the claim's.
 */
export type HeldClaim = {
  readonly run: string
  readonly lost: AbortSignal
  /** The run's task is alive: without a sign since the last renewal the claim is let go. Call it every `pulseMs`. */
  pulse(): void
  readonly pulseMs: number
  /** Renews by revision, now. Throws `lost` when somebody else has the claim. */
  renew(): Promise<void>
  /** Writes the epoch into the claim, at once. */
  setEpoch(epoch: number): void
  /** Gives the claim up and says so, so that the next owner starts at once. */
  release(): Promise<void>
}

/** Often enough to be seen between any two renewals, also where these come sooner than by default. */
const PULSE_MS = 1000
/** Between two tries of a renewal that failed; at most a third of the time between two renewals, but never less than `floorMs`. */
const RETRY = { baseMs: 500, ceilingMs: 2000, floorMs: 100 }

export type ClaimsDeps = {
  readonly nats: Nats
  readonly relay: string
  readonly boot: string
  readonly ttlMs: number
  readonly renewMs: number
  readonly log: Log
}

type Held = {
  readonly claim: HeldClaim
  readonly over: AbortController
  value: Claim
  revision: number
  /** When the last successful renewal was sent: the store cannot have started the new term any earlier. */
  renewedAtMs: number
  pulses: number
  pulsesAtRenewal: number
  /** Renewals of one claim go one after another, or the second would carry a stale revision. */
  turn: Promise<unknown>
}

/** All claims of a process, renewed by one timer. */
export class Claims {
  readonly #deps: ClaimsDeps
  readonly #held = new Map<string, Held>()

  constructor(deps: ClaimsDeps) {
    this.#deps = deps
  }

  get size(): number {
    return this.#held.size
  }

  has(run: string): boolean {
    return this.#held.has(run)
  }

  /** Claims a run where its key still has this revision. Throws `conflict` when somebody was first. */
  async take(run: string, revision: number): Promise<HeldClaim> {
    const { nats, relay, boot, ttlMs } = this.#deps
    const value: Claim = { relay, boot, epoch: null, since: new Date().toISOString() }
    const sentAtMs = performance.now()
    const taken = await writeClaim(nats, run, value, revision, ttlMs)
    const over = new AbortController()
    const held: Held = {
      claim: {
        run,
        lost: over.signal,
        pulse: () => void held.pulses++,
        pulseMs: Math.min(PULSE_MS, this.#deps.renewMs / 3),
        renew: () => this.#inTurn(held, () => this.#renew(held)),
        setEpoch: (epoch) => {
          held.value = { ...held.value, epoch }
          void held.claim.renew().catch(() => undefined)
        },
        release: () => this.#release(held),
      },
      over,
      value,
      revision: taken,
      renewedAtMs: sentAtMs,
      pulses: 1,
      pulsesAtRenewal: 0,
      turn: Promise.resolve(),
    }
    this.#held.set(run, held)
    return held.claim
  }

  /** The one renewal timer; ends when the signal aborts, after which the held claims run out or are released. */
  async keep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await rest(this.#deps.renewMs, signal).catch(() => undefined)
      if (!signal.aborted) for (const held of this.#held.values()) this.#tick(held)
    }
  }

  #tick(held: Held): void {
    const { log } = this.#deps
    const { run } = held.claim
    if (this.#loseIfOver(held)) return
    if (held.pulses === held.pulsesAtRenewal) {
      log.error({ run }, 'task.dead')
      void held.claim.release().catch(() => undefined)
      return this.#lose(held, `run ${run}: its task gave no sign`)
    }
    held.pulsesAtRenewal = held.pulses
    void this.#renewUntilDue(held).catch((error: unknown) => {
      if (!isCode(error, 'lost')) log.debug({ run, err: error }, 'claim.unrenewed')
    })
  }

  /** Renews, and tries again until the next renewal is due: an election may end at any moment of a term. */
  async #renewUntilDue(held: Held): Promise<void> {
    const { renewMs } = this.#deps
    const dueAtMs = performance.now() + renewMs
    const limits = { ...RETRY, ceilingMs: Math.min(RETRY.ceilingMs, renewMs / 3) }
    for (let attempt = 0; ; attempt++) {
      try {
        return await held.claim.renew()
      } catch (error) {
        const waitMs = backoffMs(attempt, Math.random(), limits)
        if (isCode(error, 'lost', 'denied') || performance.now() + waitMs > dueAtMs) throw error
        if (this.#loseIfOver(held)) return
        await rest(waitMs, held.over.signal)
      }
    }
  }

  /** A term that nobody renewed is over, whatever the store says later: from then on another may have the run. */
  #loseIfOver(held: Held): boolean {
    const { ttlMs } = this.#deps
    if (performance.now() - held.renewedAtMs <= ttlMs) return false
    this.#lose(held, `run ${held.claim.run}: no renewal in ${ttlMs} ms`)
    return true
  }

  async #renew(held: Held): Promise<void> {
    const { nats, ttlMs } = this.#deps
    const { run } = held.claim
    for (let attempt = 0; ; attempt++) {
      held.over.signal.throwIfAborted()
      const sentAtMs = performance.now()
      try {
        held.revision = await writeClaim(nats, run, held.value, held.revision, ttlMs)
        held.renewedAtMs = sentAtMs
        return
      } catch (error) {
        if (isCode(error, 'in_flight') && attempt < 20) {
          await rest(10 + 10 * attempt, held.over.signal)
          continue
        }
        if (!isCode(error, 'conflict', 'unknown_outcome') || attempt >= 3) throw error
        await this.#adopt(held)
      }
    }
  }

  /**
   * Another revision than ours stands there, or we do not know. Our own earlier write counts as ours; a key that
   * expired while NATS was away is claimed again by its revision; anybody else's claim is loss.
   */
  async #adopt(held: Held): Promise<void> {
    const { run } = held.claim
    const entry = await readKeyAtLeader(this.#deps.nats, BUCKET.claims, run)
    const claim = readClaim(entry)
    if (entry.value !== null && claim?.boot !== this.#deps.boot) {
      this.#lose(held, `run ${run} is claimed by ${claim?.relay ?? 'somebody else'}`)
      throw new BatonError('lost', `run ${run} is claimed by ${claim?.relay ?? 'somebody else'}`)
    }
    held.revision = entry.revision
  }

  async #release(held: Held): Promise<void> {
    const { run } = held.claim
    if (held.over.signal.aborted) return
    this.#held.delete(run)
    await this.#inTurn(held, async () => {
      await releaseClaim(this.#deps.nats, run, held.revision)
      sayReleased(this.#deps.nats, run)
    }).finally(() => held.over.abort(new BatonError('lost', `run ${run} was released`)))
  }

  #lose(held: Held, why: string): void {
    if (held.over.signal.aborted) return
    this.#held.delete(held.claim.run)
    this.#deps.log.warn({ run: held.claim.run, epoch: held.value.epoch, why }, 'claim.lost')
    held.over.abort(new BatonError('lost', why))
  }

  #inTurn<T>(held: Held, work: () => Promise<T>): Promise<T> {
    const mine = held.turn.then(work)
    held.turn = mine.catch(() => undefined)
    return mine
  }
}
