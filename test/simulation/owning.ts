import { advance, cursorsByTail, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import { Emission } from '@baton/core/emission'
import { BatonError, isCode } from '@baton/core/errors'
import { eventType, GAP, terminal, type Gap, type JobEvent, type RunEvent } from '@baton/core/event'
import { FRESH_CURSOR, type Checkpoint, type Claim } from '@baton/core/records'
import { Resume, wentOn, type Step } from '@baton/core/resume'
import { afterNoEpoch, judgeRead, settleAppend } from '@baton/core/settle'
import type { AgentModel, Connection } from './agent-model.ts'
import type { TailRead } from './log-model.ts'
import type { Process, Steps, World } from './world.ts'

const TERMINAL = ['done']
/** A checkpoint is due after so many events; a tail waits while so many are queued. */
const CHECKPOINT_EVENTS = 4
const QUEUE_EVENTS = 8
const MOST_AT_ONCE = 4
/** A claim's life, and how often it is renewed, in steps. */
const TERM = 400
const RENEW = 100
const KNOWN_EVENTS = 1000

/** What a relay does with a run while it has it: one appender, one renewal, a tail for each job. */
export class Owning {
  readonly world: World
  readonly process: Process
  readonly outcomes = new Map<string, string>()
  /** Jobs are tailed. */
  isReading = true
  epoch = 0
  /** Why it is over, once it is. */
  #over: BatonError | null = null
  readonly #claim: Claim
  #revision: number
  #renewedAt: number
  #queue: JobEvent[] = []
  #nextIndex = 1
  #cursors: Checkpoint = EMPTY_CHECKPOINT
  #writtenIndex = 0
  readonly #connections = new Set<Connection>()

  constructor(world: World, process: Process, claim: Claim, revision: number, claimedAt: number) {
    this.world = world
    this.process = process
    this.#claim = claim
    this.#revision = revision
    this.#renewedAt = claimedAt
  }

  begin(epoch: number, tail: TailRead, cursors: Checkpoint): void {
    this.epoch = epoch
    this.#cursors = cursors
    this.#writtenIndex = tail.checkpoint?.index ?? 0
    this.#nextIndex = Math.max(tail.last?.index ?? 0, cursors.index) + 1
  }

  throwIfOver(): void {
    if (this.#over !== null) throw this.#over
  }

  #stop(error: BatonError): void {
    this.#over ??= error
    this.hangUp()
  }

  hangUp(): void {
    this.#over ??= new BatonError('lost', 'it is over here')
    for (const connection of this.#connections) connection.close()
  }

  /** Given up by revision: nobody else's is touched. */
  *release(): Steps {
    try {
      yield* this.world.request(() => this.world.claims.write(null, this.#revision, this.world.now))
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
    }
  }

  *renewals(): Steps {
    let dueAt = this.world.now + RENEW
    while (this.#over === null) {
      yield
      if (this.world.now < dueAt) continue
      dueAt = this.world.now + RENEW
      if (this.world.now - this.#renewedAt > TERM) return this.#stop(new BatonError('lost', 'no renewal in time'))
      try {
        yield* this.renew()
      } catch (error) {
        if (!(error instanceof BatonError)) throw error
      }
    }
  }

  /** By revision; another one than ours may be our own earlier write, or an expired key, which is claimed again. */
  *renew(): Steps {
    const { claims, flaw } = this.world
    for (;;) {
      this.throwIfOver()
      const sentAt = this.world.now
      try {
        this.#revision = yield* this.world.request(() => claims.write(this.#claim, this.#revision, this.world.now))
        this.#renewedAt = sentAt
        return
      } catch (error) {
        if (!isCode(error, 'conflict', 'unknown_outcome')) throw error
      }
      const { claim, revision } = yield* this.world.read(() => claims.read(this.world.now))
      if (claim !== null && claim.boot !== this.#claim.boot && flaw !== 'claims-are-not-compared') {
        this.#stop(new BatonError('lost', `claimed by ${claim.boot}`))
        this.throwIfOver()
      }
      this.#revision = revision
    }
  }

  push(event: JobEvent): void {
    this.#queue.push(event)
  }

  *flush(): Steps {
    while (this.#queue.length > 0) {
      this.throwIfOver()
      yield
    }
    this.throwIfOver()
  }

  /** One append in flight; what queued meanwhile is the next one. */
  *appends(): Steps {
    try {
      while (this.#over === null) {
        yield
        if (this.#isCheckpointDue) yield* this.#writeCheckpoint()
        if (this.#queue.length > 0) yield* this.#appendNext()
      }
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      this.#stop(error)
    }
  }

  get #isCheckpointDue(): boolean {
    const { jobs, index } = this.#cursors
    const isFirst = Object.values(jobs).some(({ ordinal }) => ordinal === 1) && this.#writtenIndex < index
    return isFirst || index - this.#writtenIndex >= CHECKPOINT_EVENTS
  }

  *#writeCheckpoint(): Steps {
    const { log } = this.world
    const [checkpoint, epoch] = [this.#cursors, this.epoch]
    try {
      yield* this.world.request(() => log.writeCheckpoint(checkpoint, epoch))
      this.#writtenIndex = checkpoint.index
    } catch (error) {
      if (!(error instanceof BatonError) || isCode(error, 'lost')) throw error
    }
  }

  *#appendNext(): Steps {
    const { log, chance } = this.world
    const [firstIndex, epoch] = [this.#nextIndex, this.epoch]
    const taken = this.#queue.slice(0, 1 + chance.below(MOST_AT_ONCE))
    const events = taken.map((event, at): RunEvent => ({ ...event, index: firstIndex + at, epoch }))
    try {
      const sequence = yield* this.world.request(() => log.append(events, epoch))
      this.#stored(events, sequence)
    } catch (error) {
      if (!isCode(error, 'unknown_outcome', 'vanished')) throw error
      yield* this.#settle(events)
    }
  }

  *#settle(events: readonly RunEvent[]): Steps {
    const doubtful = { firstIndex: this.#nextIndex, count: events.length, epoch: this.epoch }
    const isKept = this.world.flaw === 'epoch-kept-after-an-unknown-outcome'
    const { epoch, tail } = isKept
      ? { epoch: this.epoch, tail: yield* readTail(this, this.epoch) }
      : yield* takeEpoch(this, this.epoch)
    const settled = settleAppend(doubtful, tail)
    if (settled.kind !== 'stored')
      throw new BatonError(settled.kind, `index ${tail.last?.index} of ${tail.last?.epoch}`)
    this.world.say(
      this.process.name,
      `settles an append: ${settled.count} of ${events.length} were stored, epoch ${epoch}`,
    )
    this.epoch = epoch
    this.#stored(events.slice(0, settled.count), tail.last?.sequence ?? 0)
  }

  #stored(events: readonly RunEvent[], sequence: number): void {
    this.#queue.splice(0, events.length)
    this.#nextIndex += events.length
    for (const event of events) this.#cursors = advance(this.#cursors, { ...event, sequence }, TERMINAL)
  }

  /** One job, over all its connections, to its end. */
  *tail(agent: AgentModel): Steps {
    const { job, resume: mode } = agent.spec
    let cursor = this.#cursors.jobs[job] ?? FRESH_CURSOR
    if (cursor.ended !== null) return void this.outcomes.set(job, cursor.ended.reason)
    const anyId = mode === 'replay'
    let emission = cursor.ordinal === 0 ? new Emission(KNOWN_EVENTS, 0, cursor.head, anyId) : null
    while (this.#over === null && this.isReading) {
      yield
      const { upstreamId } = cursor
      const lastEventId = upstreamId === '' ? null : upstreamId
      const connection = agent.connect(lastEventId, this.world.now)
      if (connection === null) return void this.outcomes.set(job, 'completed')
      this.#connections.add(connection)
      const input = { mode, cursor, sent: lastEventId !== null }
      let tailing: Resume | null = null
      while (this.#over === null && this.isReading && !connection.isCut) {
        yield
        if (this.#queue.length >= QUEUE_EVENTS) continue
        if (tailing === null && mode === 'none') {
          tailing = new Resume({ ...input, emission: (emission ??= yield* this.#known(agent, cursor)) })
          this.#take(job, tailing.open())
        }
        const event = connection.next()
        if (event === null) {
          if (tailing?.decided === false && this.world.chance.is(0.2)) this.#take(job, tailing.takeQuiet())
          continue
        }
        const unread = wentOn(input, event.id) ? new Emission(1, cursor.ordinal, cursor.head) : null
        tailing ??= new Resume({
          ...input,
          emission: emission ?? unread ?? (emission = yield* this.#known(agent, cursor)),
        })
        if (this.#over !== null) break
        const end = this.#take(job, tailing.event(event))
        if (end === null) continue
        this.#close(connection)
        return void this.outcomes.set(job, end)
      }
      this.#close(connection)
      cursor = tailing?.cursor ?? cursor
    }
  }

  #close(connection: Connection): void {
    connection.close()
    this.#connections.delete(connection)
  }

  /** What the log keeps of a job; what is queued is stored first, and a replica that is behind is asked again. */
  *#known(agent: AgentModel, cursor: { ordinal: number; head: Emission['head'] }): Steps<Emission> {
    const { log } = this.world
    while (this.#queue.length > 0 && this.#over === null) yield
    for (;;) {
      const read = new Emission(KNOWN_EVENTS, 0, cursor.head, agent.spec.resume === 'replay')
      const events = yield* tryAgain(() => this.world.read(() => log.kept(this.world.anyReplica)))
      for (const event of events) if (event.job === agent.job) read.learn(event)
      const emission = read.upTo(cursor.ordinal)
      if (this.#over !== null || emission.last === read.last || log.replicaAt >= log.last) return emission
    }
  }

  /** Queues what is to be stored; the outcome of the job, where that ends it. */
  #take(job: string, steps: readonly Step[]): string | null {
    for (const step of steps) {
      const { ordinal, upstreamId, upstreamOffset } = step
      const place = { job, ordinal, upstreamId, upstreamOffset, time: '' }
      if (step.do === 'gap') {
        const gap: Gap = { job, reason: step.reason, lost: step.lost }
        this.push({ ...place, type: GAP, name: GAP, data: JSON.stringify(gap) })
        continue
      }
      const { name, data } = step.event
      const type = eventType(name, data)
      this.push({ ...place, type, name, data })
      const end = terminal(type, data, TERMINAL)
      if (end !== null) return end
    }
    return null
  }
}

/** A new owner record where the last one is still the expected one, then the tail as of it. */
export function* takeEpoch(owning: Owning, expected: number): Steps<{ epoch: number; tail: TailRead }> {
  const { world, process } = owning
  const { log, flaw } = world
  const early =
    flaw === 'tail-read-before-the-owner-record' ? yield* tryAgain(() => world.read(() => log.tail())) : null
  let sequence: number | null = expected
  for (;;) {
    owning.throwIfOver()
    try {
      const owner = { relay: process.name, boot: process.name, since: '' }
      const known: number = sequence ?? (yield* world.read(() => log.ownerSequence(world.anyReplica)))
      sequence = known
      const epoch = yield* world.request(() => log.assertOwner(known, owner))
      return { epoch, tail: early ?? (yield* readTail(owning, epoch)) }
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
      const next = afterNoEpoch(error.code)
      if (next === null) throw error
      if (next === 'again') continue
      yield* tryAgain(() => owning.renew())
      sequence = null
    }
  }
}

/** Believed only where it shows the epoch; the leader, asked last, always does. */
function* readTail(owning: Owning, epoch: number): Steps<TailRead> {
  const { world } = owning
  for (let attempt = 0; ; attempt++) {
    owning.throwIfOver()
    const read = () => world.read(() => world.log.tail(attempt < 2 ? world.anyReplica : world.log.last))
    const tail = yield* tryAgain(read)
    if (world.flaw === 'tail-read-from-a-follower') return tail
    const verdict = judgeRead(tail.ownerSequence, epoch)
    if (verdict === 'lost') throw new BatonError('lost', `epoch ${tail.ownerSequence} has replaced epoch ${epoch}`)
    if (verdict === 'whole') return tail
  }
}

/** Where every job stands, by the log alone. */
export function* readCursors(owning: Owning, tail: TailRead): Steps<Checkpoint> {
  const { world } = owning
  const { log, agents, flaw } = world
  const { last } = tail
  const checkpoint = flaw === 'checkpoint-ignored' ? EMPTY_CHECKPOINT : (tail.checkpoint ?? EMPTY_CHECKPOINT)
  const known = cursorsByTail(checkpoint, last, { jobs: agents.map(({ job }) => job), terminalTypes: TERMINAL })
  if (known !== null || last === null) return known ?? checkpoint
  for (;;) {
    owning.throwIfOver()
    const events = yield* tryAgain(() => world.read(() => log.kept(world.anyReplica)))
    const later = events.filter(({ sequence }) => sequence > checkpoint.sequence)
    const cursors = later.reduce((folded, event) => advance(folded, event, TERMINAL), checkpoint)
    if (cursors.index >= last.index) return cursors
  }
}

/** Until NATS has an answer. */
function* tryAgain<T>(work: () => Steps<T>): Steps<T> {
  for (;;) {
    try {
      return yield* work()
    } catch (error) {
      if (!isCode(error, 'unavailable')) throw error
    }
  }
}
