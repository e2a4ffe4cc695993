import { BatonError } from '@baton/core/errors'
import type { Thresholds, Verdict } from '@baton/core/judge'
import { WATCHDOG, type RunStatus } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import { followAlerts, readAlerts } from '@baton/store/alerts'
import type { Nats } from '@baton/store/connect'
import { countWatchdogs } from '@baton/store/heartbeats'
import { onBeats } from '@baton/store/peers'
import { noSuchRun } from '../run-texts.ts'
import { changeOf, clockOf, type Change, type Display } from './displays.ts'
import { readDetails, rowOf, type Judge } from './look.ts'
import type { Row } from './row.ts'
import { WatchedRuns, type Known } from './watched-runs.ts'

export type WatchOptions = {
  readonly nats: Nats
  /** The only one to watch, to its end; null for all. */
  readonly run: string | null
  readonly everyMs: number
  readonly thresholds: Thresholds
  readonly display: Display
}

/** What changes at the same moment is shown together. */
const TOGETHER_MS = 30
/** A relay that has said nothing for so long is not counted. */
const RELAY_GONE_MS = 2000

/**
 * Watches until the signal aborts, or the one run has ended: how, then. While NATS is away it says so and goes on. Throws
 * `unknown` for a run there is not.
 */
export async function watchRuns(options: WatchOptions, signal: AbortSignal): Promise<RunStatus['end']> {
  const watch = new Watch(options, signal)
  return watch.run(signal)
}

class Watch {
  readonly #options: WatchOptions
  readonly #runs: WatchedRuns
  readonly #relays = new Map<string, number>()
  readonly #told = new Map<string, Verdict>()
  /** As they were last shown. */
  #rows = new Map<string, Row>()
  /** Runs that had ended before the first look. */
  #over: ReadonlySet<string> | null = null
  #lostAtMs: number | null = null
  #watchdogs = 0
  #wake: () => void = () => undefined

  constructor(options: WatchOptions, signal: AbortSignal) {
    this.#options = options
    const { nats, everyMs } = options
    this.#runs = new WatchedRuns(nats, everyMs, () => this.#wake(), signal)
    onBeats(nats, ({ boot, relay }) => relay !== WATCHDOG && this.#relays.set(boot, performance.now()), signal)
  }

  async run(signal: AbortSignal): Promise<RunStatus['end']> {
    const { nats, run, everyMs } = this.#options
    await this.#runs.refresh()
    const known = this.#runs.list()
    if (run !== null && !known.some((one) => one.run === run)) throw noSuchRun(run)
    this.#over = new Set(known.filter((one) => one.run !== run && isOver(one)).map((one) => one.run))
    const watched = run === null ? known.map((one) => one.run) : [run]
    const alerts = await readAlerts(nats, watched)
    for (const [of, { alert }] of alerts) this.#told.set(of, alert.verdict)
    const after = Math.max(0, ...[...alerts.values()].map(({ sequence }) => sequence))
    const ended = new AbortController()
    const over = AbortSignal.any([signal, ended.signal])
    const following = followAlerts(
      nats,
      { run, after },
      ({ alert }) => {
        this.#told.set(alert.run, alert.verdict)
        this.#wake()
      },
      over,
    )
    try {
      return await Promise.race([this.#looks(everyMs, over), following.then(() => null)])
    } finally {
      ended.abort()
    }
  }

  async #looks(everyMs: number, signal: AbortSignal): Promise<RunStatus['end']> {
    const { run } = this.#options
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve))
      await this.#look()
      const end = run === null ? null : (this.#rows.get(run)?.end ?? null)
      if (end !== null) return end
      await Promise.race([woken, pause(everyMs, signal)])
      await pause(TOGETHER_MS, signal)
    }
    return null
  }

  async #look(): Promise<void> {
    try {
      await this.#runs.refresh()
      await this.#show()
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      this.#lostAtMs ??= performance.now()
      this.#runs.distrust()
      this.#picture([...this.#rows.values()], [])
    }
  }

  async #show(): Promise<void> {
    const { nats, display } = this.#options
    this.#watchdogs = await countWatchdogs(nats)
    const known = this.#shown().slice(0, display.places())
    const read = (runs: readonly Known[]) =>
      readDetails(
        nats,
        runs.map((one) => one.run),
      )
    // Who shows no ages needs the signs only to judge by them.
    const all = display.showsAges || this.#watchdogs === 0 ? await read(known) : null
    const rows = known.map((one) => rowOf(one, all?.get(one.run) ?? null, this.#judge()))
    const at = new Date().toISOString()
    const changed = rows.flatMap((row) => changeOf(this.#rows.get(row.run) ?? null, row, at) ?? [])
    const details = all ?? (await read(known.filter(({ run }) => changed.some(({ row }) => row.run === run))))
    const whole = changed.map(({ row, ...change }) => {
      const { head, signs } = details.get(row.run) ?? { head: null, signs: null }
      const { livenessAgeMs = null, progressAgeMs = null } = signs ?? {}
      return { ...change, row: { ...row, head, livenessAgeMs, progressAgeMs } }
    })
    this.#rows = new Map(rows.map((row) => [row.run, row]))
    this.#lostAtMs = null
    this.#picture(rows, whole)
  }

  #picture(rows: readonly Row[], changes: readonly Change[]): void {
    const nowMs = performance.now()
    for (const [boot, atMs] of this.#relays) if (nowMs - atMs > RELAY_GONE_MS) this.#relays.delete(boot)
    const picture = {
      time: clockOf(new Date().toISOString()),
      rows,
      hidden: Math.max(0, this.#shown().length - rows.length),
      relays: this.#relays.size,
      watchdogs: this.#watchdogs,
      lostForMs: this.#lostAtMs === null ? null : nowMs - this.#lostAtMs,
      changes: [],
    }
    this.#options.display.show(picture, changes)
  }

  #shown(): Known[] {
    const { run } = this.#options
    return this.#runs.list().filter((one) => (run === null ? this.#over?.has(one.run) !== true : one.run === run))
  }

  #judge(): Judge {
    const { observation } = this.#runs
    return { told: this.#told, watchdogs: this.#watchdogs, observation, thresholds: this.#options.thresholds }
  }
}

const isOver = ({ status }: Known): boolean => status?.state === 'ended'
