import { BatonError } from '@baton/core/errors'
import type { ClientHistory, RunHistory } from '../kit/history.ts'
import type { Span } from '../kit/check-tails.ts'
import { AgentModel } from './agent-model.ts'
import { Chance } from './chance.ts'
import { ClaimModel } from './claim-model.ts'
import { LogModel, RUN } from './log-model.ts'
import { ReaderModel } from './reader-model.ts'
import { RelayModel } from './relay-model.ts'

/** What is wrong with a world, to see that it is found out. Each is a way in which such systems have been built. */
export type Flaw =
  | 'appends-are-not-fenced'
  | 'epoch-kept-after-an-unknown-outcome'
  | 'tail-read-before-the-owner-record'
  | 'tail-read-from-a-follower'
  | 'checkpoint-ignored'
  | 'splice-off-by-one'
  | 'index-not-checked'
  | 'claims-are-not-compared'

/** What a thread does between two pauses is one step; anything else may happen in between. */
export type Steps<T = void> = Generator<void, T, void>

/** One start of a process: its threads stop for good when it dies, and for a while when it is paused. */
export type Process = { readonly name: string; pausedUntil: number; readonly threads: Steps[] }

const CLAIM_TTL = 400
/** So many steps with faults, then as many as it takes without, up to the limit. */
const FAULTY_STEPS = 2500
const MOST_STEPS = 20_000
/** Two tails of a job may overlap for a claim's life and the steps in which one learns of its loss. */
const OVERLAP = 2 * CLAIM_TTL
const TRACE_LINES = 80

/** One run, its agents, relays, readers and the log, played out from one seed in one thread. The clock counts steps. */
export class World {
  readonly chance: Chance
  readonly flaw: Flaw | null
  readonly log: LogModel
  readonly claims: ClaimModel
  readonly agents: readonly AgentModel[]
  readonly trace: string[] = []
  /** How often what was said with these first words. */
  readonly counts = new Map<string, number>()
  now = 0
  /** What the run's status says. */
  ended = false
  faulty = true
  readonly #relays: RelayModel[] = []
  readonly #readers: readonly ReaderModel[]
  readonly #processes: Process[] = []
  readonly #underWay: (() => unknown)[] = []
  readonly #frozen: Span[] = []
  readonly #trimmed: boolean
  #starts = 0

  constructor(seed: number, flaw: Flaw | null = null) {
    this.chance = new Chance(seed)
    this.flaw = flaw
    this.#trimmed = flaw === 'checkpoint-ignored' || this.chance.is(0.3)
    this.log = new LogModel({ keeps: this.#trimmed ? 40 : 1e6, unfenced: flaw === 'appends-are-not-fenced' })
    this.claims = new ClaimModel(CLAIM_TTL, flaw === 'claims-are-not-compared')
    const jobs = ['a', 'b'].slice(0, 1 + this.chance.below(2))
    // Where the log forgets, one is silent for long and the other is not.
    this.agents = jobs.map(
      (job, at) =>
        new AgentModel(job, this.chance, { events: this.#trimmed && at === 1 ? 90 : 16, trimmed: this.#trimmed }),
    )
    for (let at = 0; at < 2 + this.chance.below(2); at++) this.#startRelay(`relay-${at}`)
    this.#readers = [0, 1].map((at) => new ReaderModel(`reader-${at}`, this))
    for (const reader of this.#readers) this.spawn(this.#process(reader.name), reader.follow())
  }

  #process(name: string): Process {
    const process: Process = { name, pausedUntil: 0, threads: [] }
    this.#processes.push(process)
    return process
  }

  #startRelay(name: string): void {
    const process = this.#process(`${name}#${++this.#starts}`)
    const relay = new RelayModel(process, this)
    this.#relays.push(relay)
    this.spawn(process, relay.live())
  }

  spawn(process: Process, thread: Steps): void {
    process.threads.push(thread)
  }

  say(who: string, what: string): void {
    this.trace.push(`${this.now} ${who}: ${what}`)
    const kind = /^[a-z ]+/.exec(what)?.[0] ?? ''
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
    if (this.trace.length > 2 * TRACE_LINES) this.trace.splice(0, TRACE_LINES)
  }

  isAlive(boot: string): boolean {
    return this.#processes.some(({ name }) => name === boot)
  }

  /**
   * A write: it may be sent late, answered late, not answered though done, or arrive when nobody reckons with it any
   * more. Throws what it throws, or `unknown_outcome`.
   */
  *request<T>(work: () => T): Steps<T> {
    yield
    const fate = this.faulty ? this.chance.below(20) : 20
    const unknown = () => new BatonError('unknown_outcome', 'no answer')
    if (fate === 0) throw unknown()
    if (fate === 1) {
      this.#underWay.push(work)
      yield
      throw unknown()
    }
    try {
      const answer = work()
      yield
      if (fate === 2) throw unknown()
      return answer
    } catch (error) {
      if (fate === 2 && error instanceof BatonError) throw unknown()
      throw error
    }
  }

  /** A read: late, or not answered at all. */
  *read<T>(work: () => T): Steps<T> {
    yield
    if (this.faulty && this.chance.is(0.05)) throw new BatonError('unavailable', 'no answer')
    const answer = work()
    yield
    return answer
  }

  /** Up to where a read may see the log: the leader's, or a replica's that is behind. */
  get anyReplica(): number {
    return this.chance.is(0.5) ? this.log.last : this.log.replicaAt
  }

  /** Plays to the end, and answers what there was to see. */
  play(): RunHistory {
    while (this.now < MOST_STEPS && !this.#isOver) {
      this.now++
      if (this.now === FAULTY_STEPS) this.#heal()
      this.#step()
    }
    for (const agent of this.agents) agent.look(this.now)
    const clients: readonly ClientHistory[] = this.#readers.map((reader) => reader.history)
    const jobs = this.agents.map((agent) => agent.emission())
    return { run: RUN, jobs, log: this.log.entries, clients, over: true }
  }

  get allowances() {
    return { overlapMs: OVERLAP, nowMs: this.now, frozen: this.#frozen, resets: this.#trimmed }
  }

  get #isOver(): boolean {
    return this.ended && this.#readers.every(({ done }) => done) && this.agents.every(({ open }) => open.size === 0)
  }

  #step(): void {
    this.#environment()
    const process = this.chance.of(this.#processes)
    if (process.pausedUntil > this.now || process.threads.length === 0) return
    const at = this.chance.below(process.threads.length)
    if (process.threads[at]?.next().done === true) process.threads.splice(at, 1)
  }

  #environment(): void {
    for (const agent of this.agents) {
      agent.look(this.now)
      if (this.chance.is(this.#trimmed && agent.job === 'b' ? 0.1 : 0.02)) agent.emit()
    }
    if (this.chance.is(0.1)) this.log.replicate(this.chance.below(8))
    if (this.chance.is(0.05)) this.log.bump()
    const late = this.chance.is(0.05)
      ? this.#underWay.splice(this.chance.below(this.#underWay.length), 1)[0]
      : undefined
    if (late !== undefined) arrive(late)
    if (!this.faulty) return
    if (this.chance.is(0.004)) for (const { open } of this.agents) for (const one of open) one.isCut = true
    if (this.chance.is(0.004)) this.#pause()
    if (this.chance.is(0.003)) this.#kill()
  }

  #pause(): void {
    const process = this.chance.of(this.#processes)
    process.pausedUntil = this.now + this.chance.below(2 * CLAIM_TTL)
    this.#frozen.push({ fromMs: this.now, toMs: process.pausedUntil })
    this.say(process.name, `paused until ${process.pausedUntil}`)
  }

  /** Dead at once, and started again under the same name: another boot. */
  #kill(): void {
    const relay = this.chance.of(this.#relays)
    this.say(relay.process.name, 'killed')
    relay.hangUp()
    this.#processes.splice(this.#processes.indexOf(relay.process), 1)
    this.#relays.splice(this.#relays.indexOf(relay), 1)
    this.#startRelay(relay.process.name.split('#')[0] ?? '')
  }

  /** No more faults; what was still under way arrives, or is lost. */
  #heal(): void {
    this.faulty = false
    for (const process of this.#processes) process.pausedUntil = Math.min(process.pausedUntil, this.now)
    this.say('world', 'healed')
  }
}

/** Nobody hears what becomes of it. */
function arrive(work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if (!(error instanceof BatonError)) throw error
  }
}
