import { BatonError } from '@baton/core/errors'
import type { StoredEvent } from '@baton/core/event'
import { isConnected } from '@baton/core/judge'
import { formatOwn } from '@baton/sse/format'
import type { Client } from './client.ts'
import type { Feed } from './feed.ts'
import { UNKNOWN_HEALTH, type RunHealth, type RunJudge } from './run-judge.ts'
import type { RunTable } from './run-table.ts'
import { ownerOf, placeOf, type Known } from './run-view.ts'

const LOOK_MS = 1000
/** What changes for many runs at once, as when a relay dies, is looked at together. */
const GATHER_MS = 20

/** A place of a client among those who are told how a run fares. */
export type Seat = {
  /** How the run fares now, as a frame. */
  readonly block: string
  /** From now on this client is told. */
  take(client: Client): void
  leave(): void
}

/** A run some clients are told of. Its head is its feed's, which lives as long as they do. */
type Watched = {
  readonly run: string
  readonly feed: Feed<StoredEvent>
  readonly clients: Set<Client>
  holders: number
  ready: Promise<void>
  known: Known
  health: RunHealth
  toldAtMs: number
}

/**
 * Tells clients that have asked for it how their run fares: when it changes, and with every heartbeat. A run is looked at
 * once for all its clients, and runs are looked at together; nothing is looked at while nobody asks.
 */
export class StatusBoard {
  readonly #runs: RunTable
  readonly #judge: RunJudge
  readonly #heartbeatMs: number
  readonly #watched = new Map<string, Watched>()
  readonly #changed = new Set<Watched>()
  #looker: NodeJS.Timeout | null = null
  #looking = false

  constructor(runs: RunTable, judge: RunJudge, heartbeatMs: number) {
    this.#runs = runs
    this.#judge = judge
    this.#heartbeatMs = heartbeatMs
    runs.onChange((known, before) => this.#onChange(known, before))
  }

  /** A seat at a run. What is said there first is as of now, or of the last look at it. */
  async seat(feed: Feed<StoredEvent>): Promise<Seat> {
    const run = feed.scope.name
    const watched = this.#watched.get(run) ?? this.#begin(run, feed)
    watched.holders++
    let seated: Client | null = null
    let left = false
    const leave = () => {
      if (left) return
      left = true
      if (seated !== null) watched.clients.delete(seated)
      watched.holders--
      if (watched.holders === 0) this.#forget(watched)
    }
    await watched.ready
    return {
      block: blockOf(watched),
      take: (client) => {
        seated = client
        watched.clients.add(client)
      },
      leave,
    }
  }

  close(): void {
    for (const watched of this.#watched.values()) this.#forget(watched)
  }

  #begin(run: string, feed: Feed<StoredEvent>): Watched {
    const known = this.#runs.get(run)
    const watched: Watched = {
      run,
      feed,
      clients: new Set(),
      holders: 0,
      ready: Promise.resolve(),
      known,
      health: UNKNOWN_HEALTH,
      toldAtMs: performance.now(),
    }
    this.#watched.set(run, watched)
    this.#looker ??= setInterval(() => void this.#lookAtAll(), Math.min(LOOK_MS, this.#heartbeatMs))
    watched.ready = this.#runs
      .read()
      .catch(() => undefined)
      .then(() => this.#look([watched]))
    return watched
  }

  #forget(watched: Watched): void {
    this.#watched.delete(watched.run)
    this.#changed.delete(watched)
    if (this.#watched.size > 0 || this.#looker === null) return
    clearInterval(this.#looker)
    this.#looker = null
  }

  #onChange(known: Known, before: Known): void {
    const watched = this.#watched.get(known.run)
    if (watched === undefined || !mayMatter(known, before)) return
    this.#changed.add(watched)
    if (this.#changed.size > 1) return
    setTimeout(() => {
      const changed = [...this.#changed]
      this.#changed.clear()
      void this.#look(changed)
    }, GATHER_MS)
  }

  async #lookAtAll(): Promise<void> {
    // While NATS does not answer one look waits for it, not one more each second.
    if (this.#looking) return
    this.#looking = true
    await this.#look([...this.#watched.values()])
    this.#looking = false
  }

  async #look(watched: readonly Watched[]): Promise<void> {
    const known = watched.map(({ run }) => this.#runs.get(run))
    const health = await this.#judge.judge(known).catch((error: unknown) => {
      if (!(error instanceof BatonError)) throw error
      return new Map<string, RunHealth>()
    })
    for (const [at, one] of watched.entries()) {
      const now = known[at]
      if (now !== undefined) this.#compare(one, now, health.get(one.run) ?? UNKNOWN_HEALTH)
    }
  }

  #compare(watched: Watched, known: Known, health: RunHealth): void {
    const before = newsOf(watched.known, watched.health)
    watched.known = known
    watched.health = health
    const nowMs = performance.now()
    if (newsOf(known, health) === before && nowMs - watched.toldAtMs < this.#heartbeatMs) return
    watched.toldAtMs = nowMs
    const block = blockOf(watched)
    for (const client of watched.clients) client.tell(block)
  }
}

/** Renewed claims, of which there are many, say nothing new. */
const mayMatter = (known: Known, before: Known): boolean =>
  newsOf(known, UNKNOWN_HEALTH) !== newsOf(before, UNKNOWN_HEALTH) ||
  known.status?.state !== before.status?.state ||
  isConnected(known.status) !== isConnected(before.status)

/** What is told at once where it changes. Ages and the head change all the time. */
const newsOf = (known: Known, { health }: RunHealth): string => {
  const { owner, epoch } = holderOf(known)
  return JSON.stringify([owner?.boot ?? null, epoch, health])
}

function blockOf({ known, health, feed }: Watched): string {
  const { livenessAgeMs, progressAgeMs } = health
  const status = { ...holderOf(known), head: placeOf(feed.head), livenessAgeMs, progressAgeMs, health: health.health }
  return formatOwn('stream.status', status)
}

/** Who has a run, and the epoch it writes under: until the first renewal of its claim nobody knows that. */
function holderOf(known: Known): { owner: { relay: string; boot: string } | null; epoch: number | null } {
  const owner = known.status?.state === 'ended' ? null : ownerOf(known)
  return owner === null
    ? { owner: null, epoch: null }
    : { owner: { relay: owner.relay, boot: owner.boot }, epoch: owner.epoch }
}
