import { decideClaim } from '@baton/core/claim'
import { BatonError, isCode } from '@baton/core/errors'
import { END } from '@baton/core/event'
import type { Claim } from '@baton/core/records'
import { parseRegistration, type Parsed, type RunSpec } from '@baton/core/run'
import type { ClaimEntry } from './claim-model.ts'
import { RUN } from './log-model.ts'
import { Owning, readCursors, takeEpoch } from './owning.ts'
import type { Process, Steps, World } from './world.ts'

const wanted: Parsed<RunSpec> = parseRegistration(RUN, { url: 'http://agent.example/stream' })

/**
 * A relay as apps/relay is one: it looks at what it knows of the claim, which may be old, and at who it believes to be
 * alive, which may be wrong; reads the owner record, claims by revision, and owns the run until it is over or lost.
 */
export class RelayModel {
  readonly process: Process
  readonly #world: World
  #seen: ClaimEntry = { claim: null, revision: 0 }
  #owning: Owning | null = null

  constructor(process: Process, world: World) {
    this.process = process
    this.#world = world
  }

  get boot(): string {
    return this.process.name
  }

  /** Its process is gone: the kernel closes its sockets. */
  hangUp(): void {
    this.#owning?.hangUp()
  }

  *live(): Steps {
    const { chance, claims } = this.#world
    while (!this.#world.ended) {
      yield
      if (chance.is(0.5)) this.#seen = claims.read(this.#world.now)
      const decision = decideClaim({ wanted, claim: this.#seen.claim, status: null, holder: this.#holder() })
      if (decision !== 'claim') continue
      try {
        yield* this.#own()
      } catch (error) {
        if (!(error instanceof BatonError)) throw error
        this.#world.say(this.boot, `stops: ${error.code}`)
      }
    }
  }

  /** What it believes of the claim's boot: a death is noticed late, and now and then a living one is taken for dead. */
  #holder(): 'me' | 'alive' | 'dead' | 'unknown' {
    const { claim } = this.#seen
    const { chance, faulty } = this.#world
    if (claim === null) return 'dead'
    if (claim.boot === this.boot) return 'me'
    const isRight = chance.is(0.1)
    if (!this.#world.isAlive(claim.boot)) return isRight ? 'dead' : chance.of(['alive', 'unknown'])
    return faulty && isRight && chance.is(0.05) ? 'dead' : 'alive'
  }

  *#own(): Steps {
    const world = this.#world
    const { claims, log } = world
    const { revision } = this.#seen
    const ownerSequence = yield* world.read(() => log.ownerSequence(world.anyReplica))
    const claim: Claim = { relay: this.boot, boot: this.boot, epoch: null, since: '' }
    const sentAt = world.now
    let taken: number
    try {
      taken = yield* world.request(() => claims.write(claim, revision, world.now))
    } catch (error) {
      this.#seen = claims.read(world.now)
      if (isCode(error, 'conflict')) return
      throw error
    }
    const owning = new Owning(world, this.process, claim, taken, sentAt)
    this.#owning = owning
    try {
      yield* this.#relay(owning, ownerSequence)
    } finally {
      owning.hangUp()
      this.#owning = null
    }
    yield* owning.release()
    this.#seen = claims.read(world.now)
  }

  *#relay(owning: Owning, ownerSequence: number): Steps {
    const world = this.#world
    world.spawn(this.process, owning.renewals())
    try {
      const { epoch, tail } = yield* takeEpoch(owning, ownerSequence)
      world.say(this.boot, `owns at epoch ${epoch}, index ${tail.last?.index ?? 0}`)
      owning.begin(epoch, tail, yield* readCursors(owning, tail))
      if (tail.last?.type === END) return void (world.ended = true)
      world.spawn(this.process, owning.appends())
      for (const agent of world.agents) world.spawn(this.process, owning.tail(agent))
      yield* this.#untilEnded(owning)
    } catch (error) {
      if (!isCode(error, 'lost', 'vanished')) throw error
      world.say(this.boot, `loses the run: ${error.message}`)
    }
  }

  /** Until every job is over and the end is stored, or it is asked to stop and hands over. */
  *#untilEnded(owning: Owning): Steps {
    const { chance, agents } = this.#world
    while (owning.outcomes.size < agents.length) {
      yield
      owning.throwIfOver()
      if (!this.#world.faulty || !chance.is(0.003)) continue
      this.#world.say(this.boot, 'hands over')
      owning.isReading = false
      yield* owning.flush()
      return
    }
    const none = { job: null, upstreamId: null, upstreamOffset: null, ordinal: null }
    owning.push({ ...none, type: END, name: END, time: '', data: JSON.stringify({ reason: 'completed' }) })
    yield* owning.flush()
    this.#world.ended = true
  }
}
