import { BatonError } from '@baton/core/errors'
import {
  isConnected,
  isNews,
  nextVerdict,
  provenVerdict,
  thresholdsOf,
  type Signs,
  type Verdict,
} from '@baton/core/judge'
import { Observation } from '@baton/core/observation'
import type { Alert } from '@baton/core/records'
import { UNREADY_AFTER_MS } from '@baton/service/health'
import type { Log } from '@baton/service/log'
import type { Registry } from '@baton/service/metrics'
import { pause } from '@baton/service/sleep'
import { Slots } from '@baton/service/slots'
import { listAlerts, readAlert, storeAlert, type LastAlert } from '@baton/store/alerts'
import { Claims } from '@baton/store/claims'
import type { Nats } from '@baton/store/connect'
import { readHeartbeats, type HeartbeatTable } from '@baton/store/heartbeats'
import type { WatchdogConfig } from './config.ts'
import { endOrphan } from './end-orphan.ts'
import { createMetrics } from './metrics.ts'
import { Presence, type Self } from './presence.ts'
import { WatchedRuns, type Watched } from './watched-runs.ts'

/** Every so many looks what is only watched between them is read as a whole. */
const FULL_LOOK_EVERY = 6
/** After a look that failed. */
const AGAIN_MS = 500
const ENDINGS_AT_ONCE = 8
const TELLINGS_AT_ONCE = 16

const NOTHING: LastAlert = { sequence: 0, alert: null }

type Look = {
  readonly nowMs: number
  readonly observedMs: number
  readonly runs: readonly Watched[]
  readonly heartbeats: HeartbeatTable
}

/**
 * Looks at all runs again and again, judges each, and tells what has changed. It keeps nothing that another could not
 * read: any number of watchdogs may run, and each may die.
 */
export class Watchdog {
  readonly #config: WatchdogConfig
  readonly #nats: Nats
  readonly #self: Self
  readonly #log: Log
  readonly #observation: Observation
  readonly #claims: Claims
  readonly #ending = new Map<string, Promise<void>>()
  readonly #endings = new Slots(ENDINGS_AT_ONCE)
  readonly #tellings = new Slots(TELLINGS_AT_ONCE)
  readonly metrics: ReturnType<typeof createMetrics>
  /** What was last told of each run, by any watchdog. */
  #told = new Map<string, LastAlert>()
  #counts = new Map<Verdict, number>()
  #looks = 0
  #lookedAtMs = Number.NEGATIVE_INFINITY

  constructor(config: WatchdogConfig, deps: { nats: Nats; self: Self; registry: Registry; log: Log }) {
    this.#config = config
    this.#nats = deps.nats
    this.#self = deps.self
    this.#log = deps.log
    this.#observation = new Observation(config.sweepMs)
    this.#claims = new Claims({ nats: deps.nats, ...deps.self, ...config.claim, log: deps.log })
    this.metrics = createMetrics(deps.registry, {
      verdicts: () => this.#counts,
      observedMs: () => this.#observation.observedMs(performance.now()),
    })
  }

  /** It has seen everything not longer ago than an election of NATS takes. */
  get ready(): boolean {
    return performance.now() - this.#lookedAtMs < UNREADY_AFTER_MS + this.#config.sweepMs
  }

  /** Works until `stop` aborts, finishes what it has begun, and returns. */
  async run(stop: AbortSignal): Promise<void> {
    const over = new AbortController()
    const nats = this.#nats
    const { sweepMs } = this.#config
    const runs = new WatchedRuns(nats, over.signal)
    const presence =
      this.#config.onOrphan === 'fail' ? new Presence(nats, this.#self, this.#config.beatMs, over.signal) : null
    const renewing = this.#claims.keep(over.signal)
    const forget = nats.onDisconnect(() => this.#observation.interrupt())
    while (!stop.aborted) {
      const done = await this.#sweep(runs, presence, stop)
      await pause(done ? sweepMs : Math.min(sweepMs, AGAIN_MS), stop)
    }
    await Promise.all(this.#ending.values())
    forget()
    over.abort(stop.reason)
    await renewing
  }

  /** One look at everything, judged. False when it could not be had: NATS is away, or has no streams yet. */
  async #sweep(runs: WatchedRuns, presence: Presence | null, stop: AbortSignal): Promise<boolean> {
    const startedAtMs = performance.now()
    try {
      const look = await this.#look(runs, stop)
      this.#looks++
      await this.#judgeAll(look, presence, stop)
      this.#lookedAtMs = performance.now()
      this.metrics.sweeps.inc({ outcome: 'done' })
      this.metrics.sweepSeconds.observe((performance.now() - startedAtMs) / 1000)
      return true
    } catch (error) {
      if (stop.aborted) return false
      if (!(error instanceof BatonError)) throw error
      // Said once for each time NATS is away.
      this.#log[this.#looks === 0 ? 'debug' : 'warn']({ code: error.code, err: error }, 'sweep.undone')
      this.#observation.interrupt()
      this.#looks = 0
      this.metrics.sweeps.inc({ outcome: error.code })
      return false
    }
  }

  async #look(runs: WatchedRuns, stop: AbortSignal): Promise<Look> {
    const full = this.#looks % FULL_LOOK_EVERY === 0
    if (full) await runs.sweep()
    const told = full ? await listAlerts(this.#nats, stop) : null
    const nowMs = performance.now()
    const [heartbeats, found] = await Promise.all([readHeartbeats(this.#nats, this.#self.boot, stop), runs.list()])
    if (told !== null) this.#told = newest(told, this.#told, found)
    const live = found.filter((one) => !this.#isOver(one))
    this.#observation.looked(
      nowMs,
      new Map(
        live.map(({ run, claim, status }) => [
          run,
          { owned: claim !== null && !heartbeats.isWatchdog(claim.boot), connected: isConnected(status) },
        ]),
      ),
    )
    const observedMs = Math.min(this.#observation.observedMs(nowMs), heartbeats.bucketAgeMs)
    return { nowMs, observedMs, runs: live, heartbeats }
  }

  /** It has ended and nobody waits to hear of it. */
  #isOver({ run, status }: Watched): boolean {
    return status?.state === 'ended' && !isNews(this.#previous(run), 'ended')
  }

  #previous(run: string): Verdict {
    return this.#told.get(run)?.alert?.verdict ?? 'running'
  }

  async #judgeAll(look: Look, presence: Presence | null, stop: AbortSignal): Promise<void> {
    const counts = new Map<Verdict, number>()
    const news: Promise<void>[] = []
    for (const watched of look.runs) {
      const verdict = this.#judge(watched, look, presence, stop)
      counts.set(verdict, (counts.get(verdict) ?? 0) + 1)
      if (isNews(this.#previous(watched.run), verdict)) {
        news.push(this.#tellings.use(() => this.#tell(watched, verdict)))
      }
    }
    this.#counts = counts
    this.#measureAges(look)
    await Promise.all(news)
  }

  #judge(watched: Watched, look: Look, presence: Presence | null, stop: AbortSignal): Verdict {
    const thresholds = thresholdsOf(watched.spec, this.#config.thresholds)
    const signs = this.#signs(watched, look)
    const verdict = nextVerdict(this.#previous(watched.run), signs, thresholds, look.observedMs)
    const proven = provenVerdict(signs, thresholds, look.observedMs)
    if (presence !== null && proven === 'orphaned') this.#end(watched, look, presence, stop)
    return verdict
  }

  #signs({ run, status }: Watched, { nowMs, heartbeats }: Look): Signs {
    return {
      status,
      livenessAgeMs: heartbeats.ageMs('liveness', run),
      progressAgeMs: heartbeats.ageMs('progress', run),
      busyOverMs: heartbeats.busyOverMs(run),
      ...this.#observation.ages(run, nowMs),
    }
  }

  /** Tells a change, unless another watchdog has: then what it said is what is held of the run. */
  async #tell({ run, claim, status }: Watched, verdict: Verdict): Promise<void> {
    const previous = this.#previous(run)
    const epoch = claim?.epoch ?? status?.epoch ?? null
    const alert: Alert = { run, verdict, previous, since: new Date().toISOString(), epoch }
    try {
      const { sequence: expected } = this.#told.get(run) ?? NOTHING
      const sequence = await storeAlert(this.#nats, alert, expected, this.#self.boot)
      this.#told.set(run, { sequence, alert })
      this.metrics.alerts.inc({ verdict })
      const isGood = verdict === 'running' || verdict === 'ended'
      this.#log[isGood ? 'info' : 'warn']({ run, verdict, previous, epoch }, 'verdict.changed')
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      if (error.code === 'conflict') return await this.#learn(run)
      // Nothing is told, so the next look finds the same news.
      this.#log.warn({ run, verdict, code: error.code }, 'verdict.untold')
    }
  }

  async #learn(run: string): Promise<void> {
    try {
      this.#told.set(run, await readAlert(this.#nats, run))
    } catch (error) {
      // The next compare-and-set fails too, and asks again.
      if (!(error instanceof BatonError)) throw error
    }
  }

  /** Goes to end an orphan, once at a time, while the looks go on. */
  #end({ run, spec, status, claim }: Watched, { heartbeats }: Look, presence: Presence, stop: AbortSignal): void {
    // It is told before it is ended: whoever hears of the end has heard why.
    if (this.#ending.has(run) || this.#previous(run) !== 'orphaned') return
    // Another watchdog is at it.
    if (claim !== null && heartbeats.isWatchdog(claim.boot)) return
    const orphan = {
      run,
      holder: claim?.boot ?? null,
      progressRevision: heartbeats.revision('progress', run),
      jobs: spec?.jobs.map(({ job }) => job) ?? [],
      jobStatuses: status?.jobs ?? [],
      terminalTypes: spec?.terminalTypes ?? null,
    }
    const deps = { nats: this.#nats, self: this.#self, claims: this.#claims, logAgeMs: this.#config.logAgeMs }
    const ending = this.#endings
      .use(() => (stop.aborted ? Promise.resolve(null) : presence.during(() => endOrphan(orphan, deps, stop))))
      .then(
        (end) => this.#hasEnded(run, end),
        (error: unknown) => this.#hasNotEnded(run, error, stop),
      )
      .finally(() => this.#ending.delete(run))
    this.#ending.set(run, ending)
  }

  #hasEnded(run: string, end: { reason: string } | null): void {
    this.metrics.orphans.inc({ outcome: end === null ? 'left' : 'ended' })
    if (end !== null) this.#log.warn({ run, reason: end.reason }, 'orphan.ended')
  }

  /** Somebody else was first, or NATS is away: the next look tells, ours or another's. */
  #hasNotEnded(run: string, error: unknown, stop: AbortSignal): void {
    if (stop.aborted) return
    if (!(error instanceof BatonError)) throw error
    this.metrics.orphans.inc({ outcome: error.code })
    this.#log.info({ run, code: error.code, err: error }, 'orphan.left')
  }

  #measureAges({ runs, heartbeats }: Look): void {
    for (const kind of ['liveness', 'progress'] as const) {
      const oldestMs = runs.reduce((most, { run }) => Math.max(most, heartbeats.ageMs(kind, run) ?? 0), 0)
      this.metrics.oldest.set({ kind }, oldestMs / 1000)
    }
  }
}

/** What answers may be behind: what we have told since, or learnt from the leader, stands. */
function newest(
  listed: ReadonlyMap<string, LastAlert>,
  known: ReadonlyMap<string, LastAlert>,
  runs: readonly Watched[],
): Map<string, LastAlert> {
  const told = new Map(listed)
  for (const { run } of runs) {
    const mine = known.get(run) ?? NOTHING
    if (mine.sequence > (told.get(run)?.sequence ?? 0)) told.set(run, mine)
  }
  return told
}
