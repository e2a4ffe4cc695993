import { claimDelayMs, rank, rebalance, share } from '@baton/core/balance'
import { isCode } from '@baton/core/errors'
import type { Parsed, RunSpec } from '@baton/core/run'
import { UNREADY_AFTER_MS } from '@baton/service/health'
import type { Log } from '@baton/service/log'
import type { Registry } from '@baton/service/metrics'
import { pause, whenAborted } from '@baton/service/sleep'
import { Slots } from '@baton/service/slots'
import { Claims, type HeldClaim } from '@baton/store/claims'
import type { Nats } from '@baton/store/connect'
import { watchConnection, type Connection } from '@baton/store/connection'
import { askRelease, onDrainRequests, onReleased, onReleaseRequests, type Draining } from '@baton/store/peers'
import { readOwner } from '@baton/store/write-log'
import { ClaimQueue } from './claim-queue.ts'
import type { RelayConfig } from './config.ts'
import { KnownRuns } from './known-runs.ts'
import { createMetrics } from './metrics.ts'
import { ownRun, type OwnDeps, type Owned, type OwnOutcome } from './own-run.ts'
import { Peers } from './peers.ts'
import type { Upstream } from './upstream.ts'

const SWEEP_MS = 5000
const BALANCE_MS = 500
const MOVES_AT_ONCE = 5
/** Claims under way at once: a dead peer's 500 runs must not become 500 requests at the same instant. */
const CLAIMS_AT_ONCE = 64
const HANDED_OVER_AT_ONCE = 16
const READINGS_AT_ONCE = 32
const ASK_AGAIN_MS = 1000
const BUDGET_BYTES = 256 * 2 ** 20

type Task = { readonly leave: AbortController; readonly cancel: AbortController; done: Promise<void> }

/** What made this relay go for a run, and when. */
type Occasion = { readonly cause: string; readonly atMs: number }

type Deps = {
  readonly nats: Nats
  readonly upstream: Upstream
  readonly boot: string
  readonly registry: Registry
  readonly log: Log
}

/**
 * Keeps the active runs of KV `runs` tailed, together with its peers and with no coordinator: what it sees makes it try,
 * a claim by revision decides. Watches and notices make it fast; a sweep makes it certain.
 */
export class Relay {
  readonly #config: RelayConfig
  readonly #deps: Deps
  readonly #claims: Claims
  readonly #peers: Peers
  readonly #own: OwnDeps
  readonly metrics: ReturnType<typeof createMetrics>
  readonly #tasks = new Map<string, Task>()
  readonly #queue = new ClaimQueue()
  readonly #slots = new Slots(CLAIMS_AT_ONCE)
  #known!: KnownRuns
  #connection: Connection | null = null
  #ready = false
  #stopping = false

  constructor(config: RelayConfig, deps: Deps) {
    const { nats, upstream, boot, log } = deps
    const { relay, beatMs, claim } = config
    this.#config = config
    this.#deps = deps
    this.#claims = new Claims({ nats, relay, boot, ...claim, log })
    this.#peers = new Peers({
      nats,
      relay,
      boot,
      beatMs,
      runs: () => this.#tasks.size,
      draining: () => this.#stopping,
      onDead: (dead, how) => this.#onDead(dead, how),
      log,
    })
    const budget = { bytes: 0, limitBytes: BUDGET_BYTES }
    this.metrics = createMetrics(deps.registry, {
      runs: () => this.#tasks.size,
      queueBytes: () => budget.bytes,
      loopLagMs: () => this.#peers.loopLagMs,
    })
    this.#own = {
      nats,
      relay,
      boot,
      upstream,
      budget,
      readings: new Slots(READINGS_AT_ONCE),
      heartbeatWriteMs: config.heartbeatWriteMs,
      livenessTtlMs: config.livenessTtlMs,
      progressTtlMs: config.progressTtlMs,
      runsMaxAgeMs: config.topology.runsMaxAgeMs,
      metrics: this.metrics,
      log,
    }
  }

  /** Everything wanted has been read once, and NATS is there, or was a moment ago. */
  get ready(): boolean {
    const lostForMs = this.#connection?.lostForMs ?? 0
    return this.#ready && !this.#stopping && lostForMs < UNREADY_AFTER_MS
  }

  /** Works until `stop` aborts, then hands every run over and returns. A request to drain asks for that end. */
  async run(stop: AbortSignal, askToStop: (by: string) => void): Promise<void> {
    const { nats, boot } = this.#deps
    // Peers and renewals go on while the runs are handed over.
    const over = new AbortController()
    this.#connection = watchConnection(nats, () => undefined, over.signal)
    this.#known = new KnownRuns(
      nats,
      {
        onWanted: (run, wanted) => this.#onWanted(run, wanted),
        onClaim: (run, claim) => this.#onClaim(run, claim === null ? 'expired' : 'claimed'),
      },
      over.signal,
    )
    onReleased(nats, (run) => this.#consider(run, 'released'), over.signal)
    onReleaseRequests(nats, boot, (runs) => this.#giveAway(runs), over.signal)
    onDrainRequests(nats, boot, () => this.#startDraining(askToStop), over.signal)
    const background = [this.#peers.run(over.signal), this.#claims.keep(over.signal)]
    await Promise.all([...background, this.#sweeps(stop), this.#balances(stop), this.#drain(stop, over)])
  }

  #startDraining(askToStop: (by: string) => void): Draining {
    const runs = this.#tasks.size
    askToStop('a request to drain')
    return { relay: this.#config.relay, boot: this.#deps.boot, runs }
  }

  async #drain(stop: AbortSignal, over: AbortController): Promise<void> {
    await whenAborted(stop)
    this.#stopping = true
    this.#peers.announce()
    this.#queue.clear()
    // A few at a time: each is then away from its agent for a moment only, where all at once would each wait for all.
    const turns = new Slots(HANDED_OVER_AT_ONCE)
    const handOver = (task: Task) =>
      turns.use(() => {
        task.leave.abort(stop.reason)
        return task.done
      })
    await Promise.all([...this.#tasks.values()].map(handOver))
    over.abort(stop.reason)
  }

  async #sweeps(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      try {
        await this.#known.sweep()
        if (!this.#ready) this.#deps.log.info({ runs: this.#known.active.size }, 'relay.ready')
        this.#ready = true
        this.#queue.keepOnly(this.#known.active)
        for (const run of this.#known.all) this.#consider(run, 'sweep')
      } catch (error) {
        this.#deps.log.debug({ err: error }, 'sweep.undone')
      }
      await pause(this.#ready ? SWEEP_MS : ASK_AGAIN_MS, stop)
    }
  }

  async #balances(stop: AbortSignal): Promise<void> {
    const { nats, boot, log } = this.#deps
    while (!stop.aborted) {
      await pause(BALANCE_MS, stop)
      // While runs are about to be claimed nobody's share is known.
      if (!this.#ready || stop.aborted || this.#queue.isClaiming) continue
      const move = rebalance(boot, this.#peers.loads(), Math.min(MOVES_AT_ONCE, this.#room()))
      if (move === null) continue
      const given = await askRelease(nats, move.from, move.runs)
      log.debug({ peer_boot: move.from, asked: move.runs, given }, 'balance.asked')
    }
  }

  #onWanted(run: string, wanted: Parsed<RunSpec> | null): void {
    if (wanted?.ok === false) this.#deps.log.warn({ run, reason: wanted.reason }, 'registration.invalid')
    const task = this.#tasks.get(run)
    // A record made invalid under a live run harms nothing: the run goes on as it was registered.
    if (task !== undefined && wanted === null) void this.#cancelIfGone(run, task)
    if (task !== undefined && wanted?.ok === true && wanted.value.cancel) task.cancel.abort(new Error('cancelled'))
    this.#consider(run, 'wanted')
  }

  /** A deleted registration cancels its run, and the leader has the word on that. */
  async #cancelIfGone(run: string, task: Task): Promise<void> {
    while (this.#tasks.get(run) === task && !task.cancel.signal.aborted) {
      try {
        if ((await this.#known.learnWanted(run)) === null) task.cancel.abort(new Error('the registration was deleted'))
        return
      } catch {
        await pause(ASK_AGAIN_MS, task.leave.signal)
        if (task.leave.signal.aborted) return
      }
    }
  }

  #onClaim(run: string, cause: string): void {
    // Somebody's claim, ours included, ends the wait for it; a claim that is gone begins one.
    this.#queue.drop(run)
    this.#consider(run, cause)
  }

  #onDead(boot: string, how: string): void {
    this.metrics.peersDead.inc({ how })
    for (const run of this.#known.claimedBy(boot)) {
      this.#queue.answered(run)
      this.#consider(run, 'dead')
    }
  }

  #decide(run: string) {
    return this.#known.decide(run, (boot) => this.#peers.holder(boot))
  }

  #room(): number {
    return this.#config.capacity - this.#tasks.size
  }

  /** Whether to go for a run now, and after which wait; called on anything that may have changed the answer. */
  #consider(run: string, cause: string): void {
    if (!this.#ready || this.#stopping || this.#tasks.has(run) || this.#queue.has(run)) return
    const decision = this.#decide(run)
    if (decision === 'leave' || this.#room() <= 0) return
    if (decision === 'ask') return this.#ask(run)
    const atMs = performance.now()
    const live = this.#peers.live()
    const place = rank(run, this.#deps.boot, live)
    const fair = share(Math.max(1, this.#known.active.size), live.length)
    const turnMs = claimDelayMs({ rank: place, owned: this.#tasks.size, share: fair })
    this.#queue.add(run, turnMs, live.length < 2, () => void this.#attempt(run, { cause, atMs }))
  }

  #ask(run: string): void {
    const claim = this.#known.claim(run)
    if (claim === null) return
    this.#queue.askAgain(run, ASK_AGAIN_MS, () => this.#consider(run, 'ask'))
    void this.#peers.askUnknown(claim.boot, AbortSignal.timeout(ASK_AGAIN_MS)).catch(() => undefined)
  }

  async #attempt(run: string, occasion: Occasion): Promise<void> {
    // Several runs may have been about to be gone for when there was room for one.
    if (this.#tasks.has(run) || this.#room() <= 0) return
    const task: Task = { leave: new AbortController(), cancel: new AbortController(), done: Promise.resolve() }
    this.#tasks.set(run, task)
    task.done = this.#slots
      .use(() => this.#claim(run))
      .then((claimed) => (claimed === null ? undefined : this.#work(run, task, claimed, occasion)))
      .catch((error: unknown) => this.#failed(run, error))
      .finally(() => this.#tasks.delete(run))
    await task.done
    if (!this.#stopping) this.#consider(run, 'again')
  }

  /** The owner record's sequence first, then the claim: the order that a sleeper in between cannot survive. */
  async #claim(run: string): Promise<{ claim: HeldClaim; ownerSequence: number } | null> {
    const { nats } = this.#deps
    if (this.#stopping || this.#decide(run) !== 'claim') return null
    // The revision the decision was made on: one seen later may be a living peer's claim.
    const revision = this.#known.claimRevision(run)
    try {
      const { sequence } = await readOwner(nats, run)
      const claim = await this.#claims.take(run, revision)
      this.metrics.claims.inc({ outcome: 'taken' })
      return { claim, ownerSequence: sequence }
    } catch (error) {
      if (!isCode(error, 'conflict', 'in_flight', 'unknown_outcome', 'unavailable')) throw error
      this.metrics.claims.inc({ outcome: error.code })
      // Somebody was first, or nothing is known: what stands there now decides what to do next.
      await this.#known.learnClaim(run)
      if (error.code !== 'conflict') throw error
      return null
    }
  }

  async #work(
    run: string,
    task: Task,
    { claim, ownerSequence }: { claim: HeldClaim; ownerSequence: number },
    { cause, atMs }: Occasion,
  ): Promise<void> {
    if (this.#stopping) task.leave.abort(new Error('stopping'))
    const onOwned = () => {
      if (ownerSequence === 0) return
      this.metrics.takeovers.inc({ cause })
      this.metrics.takeoverSeconds.observe({ cause }, (performance.now() - atMs) / 1000)
    }
    const outcome = await this.#tailOwned(run, task, { claim, ownerSequence, onOwned }).catch(
      async (error: unknown) => {
        await claim.release().catch(() => undefined)
        throw error
      },
    )
    this.#queue.succeeded(run)
    if (outcome === 'lost') this.metrics.lost.inc()
    if (outcome === 'released') this.metrics.released.inc()
    if (outcome === 'ended') this.#known.ended(run)
  }

  async #tailOwned(
    run: string,
    task: Task,
    taken: Pick<Owned, 'claim' | 'ownerSequence' | 'onOwned'>,
  ): Promise<OwnOutcome> {
    // Begun and no longer wanted means cancelled; the leader has the word, for there is no way back.
    const wanted = this.#known.wanted(run) ?? (await this.#known.learnWanted(run))
    if (wanted === null || (wanted.ok && wanted.value.cancel)) task.cancel.abort(new Error('cancelled'))
    return await ownRun(
      {
        spec: wanted?.ok === true ? wanted.value : nothingWanted(run),
        ...taken,
        status: this.#known.status(run),
        cancelled: task.cancel.signal,
        leave: task.leave,
        onHopeless: () => this.#decline(run, task),
      },
      this.#own,
    )
  }

  /** One run's failure is that run's: it is tried again, later and later, and no other notices. */
  #failed(run: string, error: unknown): void {
    const isPassing = this.#queue.failed(run, error)
    this.#deps.log[isPassing ? 'debug' : 'error']({ run, err: error }, 'run.failed')
  }

  /** This relay does not reach the agents of a run; each of the others may try once. */
  #decline(run: string, task: Task): void {
    if (this.#peers.live().length < 2 || !this.#queue.decline(run)) return
    this.#deps.log.warn({ run }, 'run.declined')
    task.leave.abort(new Error('the agents cannot be reached from here'))
  }

  /** Gives up to `runs` runs away on a peer's request; the peer below its share claims first. */
  #giveAway(runs: number): number {
    const chosen = [...this.#tasks.values()]
      .filter((task) => !task.leave.signal.aborted)
      .slice(-Math.min(runs, MOVES_AT_ONCE))
    for (const task of chosen) task.leave.abort(new Error('balancing'))
    return chosen.length
  }
}

/** For a run that was begun and whose registration is gone: there is nothing to tail, only an end to write. */
const nothingWanted = (run: string): RunSpec => ({
  run,
  jobs: [],
  progressTypes: null,
  terminalTypes: null,
  labels: {},
  quietMs: null,
  stallMs: null,
  orphanMs: null,
  cancel: true,
})
