import { BatonError } from '@baton/core/errors'
import {
  judge,
  provenVerdict,
  shownVerdict,
  thresholdsOf,
  type Signs,
  type Thresholds,
  type Verdict,
} from '@baton/core/judge'
import { Observation } from '@baton/core/observation'
import { presenceOf, verdictIn } from '@baton/core/run-state'
import type { Log } from '@baton/service/log'
import { readAlerts } from '@baton/store/alerts'
import type { Nats } from '@baton/store/connect'
import type { Connection } from '@baton/store/connection'
import { bucketMadeAtMs, readSigns, type RunSigns } from '@baton/store/heartbeats'
import type { RunTable } from './run-table.ts'
import { stateOf, type Known } from './run-view.ts'

/** How a run fares, and the ages of the signs that say so. */
export type RunHealth = {
  readonly livenessAgeMs: number | null
  readonly progressAgeMs: number | null
  /** Null where it cannot be said: nobody has the run yet, or this edge has not looked for long enough. */
  readonly health: Verdict | null
}

export const UNKNOWN_HEALTH: RunHealth = { livenessAgeMs: null, progressAgeMs: null, health: null }

const LOOK_MS = 2000

type Case = { readonly known: Known; readonly signs: Signs; readonly thresholds: Thresholds }

type Deps = {
  readonly nats: Nats
  readonly connection: Connection
  readonly runs: RunTable
  readonly thresholds: Thresholds
  readonly log: Log
}

/**
 * How runs fare, by the same judge as the watchdog's. It looks at who owns which run and whether heartbeats can be written,
 * all the time, for silence counts no longer than that was seen; heartbeats are read when somebody asks.
 */
export class RunJudge {
  readonly #deps: Deps
  /** Aborts what a look waits for when the edge ends, which is no failure of anything. */
  readonly #signal: AbortSignal
  readonly #observation = new Observation(LOOK_MS)
  #madeAtMs = Number.POSITIVE_INFINITY
  #looking = false

  constructor(deps: Deps, signal: AbortSignal) {
    this.#deps = deps
    this.#signal = signal
    const forget = deps.nats.onDisconnect(() => this.#observation.interrupt())
    const looker = setInterval(() => void this.#look(), LOOK_MS)
    signal.addEventListener(
      'abort',
      () => {
        clearInterval(looker)
        forget()
      },
      { once: true },
    )
  }

  /** How some runs fare, by run. Throws `unavailable`. */
  async judge(runs: readonly Known[]): Promise<Map<string, RunHealth>> {
    const { nats } = this.#deps
    const ids = runs.map(({ run }) => run)
    const read = await readSigns(nats, ids)
    const observedMs = this.#observedMs()
    const cases = runs.map((known) => this.#case(known, read.get(known.run) ?? null))
    // Where this edge has not seen enough, the word of a watchdog that has seen more counts.
    const doubtful = cases.filter(
      ({ signs, thresholds }) => provenVerdict(signs, thresholds, observedMs) !== judge(signs, thresholds),
    )
    const alerts = await readAlerts(
      nats,
      doubtful.map(({ known }) => known.run),
    )
    const health = ({ known, signs, thresholds }: Case): Verdict | null =>
      verdictIn(
        stateOf(known),
        shownVerdict(alerts.get(known.run)?.alert.verdict ?? null, signs, thresholds, observedMs),
      )
    return new Map(
      cases.map((one) => {
        const { livenessAgeMs, progressAgeMs } = one.signs
        return [one.known.run, { livenessAgeMs, progressAgeMs, health: health(one) }]
      }),
    )
  }

  #case(known: Known, signs: RunSigns | null): Case {
    const { registration } = known
    const own = registration?.ok === true ? registration.value : null
    return { known, signs: this.#signs(known, signs), thresholds: thresholdsOf(own, this.#deps.thresholds) }
  }

  #signs(known: Known, signs: RunSigns | null): Signs {
    const { owned, connected } = presenceOf(known.status, known.claim)
    const ages = this.#observation.ages(known.run, performance.now())
    return {
      status: known.status,
      livenessAgeMs: signs?.livenessAgeMs ?? null,
      progressAgeMs: signs?.progressAgeMs ?? null,
      busyOverMs: signs?.busyOverMs ?? null,
      registeredAgeMs: ages.registeredAgeMs,
      // What was read may be newer than the last look.
      ownerlessMs: owned ? 0 : ages.ownerlessMs,
      unconnectedMs: connected ? 0 : ages.unconnectedMs,
    }
  }

  #observedMs(): number {
    return Math.max(0, Math.min(this.#observation.observedMs(performance.now()), Date.now() - this.#madeAtMs))
  }

  /** Sees who has which run, where all of it can be seen and heartbeats can be written: the leader of their bucket answers. */
  async #look(): Promise<void> {
    const { nats, connection, runs, log } = this.#deps
    if (this.#looking) return
    if (!connection.connected) return this.#observation.interrupt()
    this.#looking = true
    const nowMs = performance.now()
    try {
      if (!runs.whole) {
        this.#observation.interrupt()
        await runs.sweep()
      }
      this.#madeAtMs = await bucketMadeAtMs(nats)
      const live = [...runs.all()].filter(({ status }) => status?.state !== 'ended')
      this.#observation.looked(nowMs, new Map(live.map(({ run, status, claim }) => [run, presenceOf(status, claim)])))
    } catch (error) {
      if (this.#signal.aborted) return
      if (!(error instanceof BatonError)) throw error
      log.debug({ code: error.code }, 'look.undone')
      this.#observation.interrupt()
    } finally {
      this.#looking = false
    }
  }
}
