import type { GapReason } from './event.ts'
import type { Emission, Emitted } from './emission.ts'
import type { JobCursor } from './records.ts'
import type { JobSpec } from './run.ts'

/** What is to be stored next. What the agent merely sent again appears in no step. */
export type Step<E extends Emitted = Emitted> =
  | ({ readonly do: 'take'; readonly event: E } & Place)
  | ({ readonly do: 'gap'; readonly reason: GapReason; readonly lost: number | null } & Place)

/** The ordinal of an event, and the upstream id in force with the number of events since it was set. */
export type Place = {
  readonly ordinal: number
  readonly upstreamId: string | null
  readonly upstreamOffset: number | null
}

type Held<E> = { readonly event: E } | { readonly moved: string } | { readonly tooLarge: string | null }

/** What may be held back while it is open whether it is new. Beyond, the longest replay still possible is believed. */
const HELD_EVENTS = 4096
const HELD_CHARACTERS = 4 * 2 ** 20
/** This many events in a row that fit a replay are no coincidence. */
const WITNESSES = 3

const counted = /^(.{0,200}?)(0|[1-9]\d{0,14})$/s

/** Does the id end in a number, so that the next one may be told by counting on? */
export const counts = (id: string): boolean => counted.test(id)

/**
 * Is `id` the one that follows `before` where an agent counts its events? Then an agent that was asked to go on after
 * `before` has done so, and nothing has to be compared: ids that count name no two events. Any other pair proves
 * nothing, for ids are opaque. Worth the exception: reading a run's stored events back costs the server a walk through
 * everything that lies between them, and a relay that takes over hundreds of runs has no time for it.
 */
export function follows(before: string, id: string): boolean {
  const [, prefix, number] = counted.exec(before) ?? []
  return number !== undefined && id === `${prefix}${Number(number) + 1}`
}

/**
 * Does the first id of a connection prove that the agent went on where it was asked to, so that nothing that is stored
 * has to be read and compared? `sent`: Last-Event-ID was sent with the cursor's id.
 */
export function wentOn(
  { mode, cursor, sent }: { mode: JobSpec['resume']; cursor: JobCursor; sent: boolean },
  id: string | null,
): boolean {
  const { upstreamId, upstreamOffset } = cursor
  return sent && mode === 'auto' && upstreamOffset === 0 && id !== null && follows(upstreamId ?? '', id)
}

/**
 * Decides, for one connection to an agent, which of its events are new. Pure: events in, steps out.
 *
 * Until it is decided, every event is compared with what is stored. The replays still possible are the ordinals at
 * which one could have begun; each further event rules some out, and one is complete when it has reached the last
 * stored event. The longest wins: a shorter one counts only when all longer ones are ruled out.
 *
 *   - all ruled out, one was complete → what came after it is new
 *   - all ruled out, none complete, and Last-Event-ID was sent and only un-ided events came → the agent went on from
 *     that id: all is new (but where it had begun to send again what followed the id, and then said something else:
 *     that has diverged)
 *   - all ruled out otherwise → one gap, and what comes is new
 *
 * A connection that ends undecided leaves nothing behind: what was held is stored already as far as anyone can know, and
 * the next connection starts over.
 *
 * What stays held in silence: only events that equal stored ones in their order. Where the id may have been honoured and
 * they are no continuation of it, `takeQuiet` takes them.
 */
export class Resume<E extends Emitted = Emitted> {
  readonly #mode: JobSpec['resume']
  readonly #emission: Emission
  #ordinal: number
  #upstreamId: string | null
  #upstreamOffset: number | null
  /** The job's last stored event is a gap. */
  #gap: boolean
  #decided: boolean
  /** Something of this connection was taken. */
  #fresh = false

  /** Last-Event-ID was sent, and nothing speaks against its having been honoured. */
  #honoured: boolean
  /** Where the un-ided events after the stored id begin: an honest agent sends them again first. */
  readonly #afterId: number
  /** Ordinals at which a replay that fits what came so far could have begun, ascending. */
  #possible: number[] = []
  /** Events that came on this connection while it was undecided. */
  #count = 0
  #complete = false
  #held: Held<E>[] = []
  #heldCharacters = 0
  /** The id in force as this connection alone tells it. */
  #seenId: string | null = null
  #seenOffset: number | null = null

  /** `sent`: Last-Event-ID was sent with the cursor's id. `emission` is added to as events are taken. */
  constructor(input: { mode: JobSpec['resume']; cursor: JobCursor; sent: boolean; emission: Emission }) {
    const { mode, cursor, sent, emission } = input
    this.#mode = mode
    this.#emission = emission
    this.#ordinal = cursor.ordinal
    this.#upstreamId = cursor.upstreamId
    this.#upstreamOffset = cursor.upstreamOffset
    this.#gap = cursor.gap
    this.#honoured = sent && mode !== 'replay'
    this.#afterId = cursor.ordinal - (cursor.upstreamOffset ?? cursor.ordinal) + 1
    this.#decided = mode === 'none' || cursor.ordinal === 0
  }

  /** Where the job stands now: what the next connection resumes from. */
  get cursor(): JobCursor {
    return {
      ordinal: this.#ordinal,
      upstreamId: this.#upstreamId,
      upstreamOffset: this.#upstreamOffset,
      gap: this.#gap,
      head: this.#emission.head,
      ended: null,
    }
  }

  get decided(): boolean {
    return this.#decided
  }

  /** The agent has answered with a stream. */
  open(): readonly Step<E>[] {
    return this.#mode === 'none' && this.#ordinal > 0 ? this.#gapStep('no-replay') : []
  }

  /** The id moved without an event. */
  moved(id: string): void {
    if (this.#decided) {
      this.#upstreamId = id
      this.#upstreamOffset = 0
      return
    }
    this.#seenId = id
    this.#seenOffset = 0
    this.#hold({ moved: id })
  }

  /** An event too large to be stored; `id` is the one it carried. */
  tooLarge(id: string | null): readonly Step<E>[] {
    if (!this.#decided) {
      this.#hold({ tooLarge: id })
      return []
    }
    if (id !== null) this.moved(id)
    // It may be the very one that made the last gap, sent again.
    if (this.#gap && !this.#fresh) return []
    this.#gap = true
    return [{ do: 'gap', reason: 'too-large', lost: 1, ...this.#place() }]
  }

  event(event: E): readonly Step<E>[] {
    if (this.#decided) return [this.#take(event)]
    const value = this.#emission.digestOf(event)
    const before = this.#possible
    this.#possible =
      this.#count === 0 ? this.#beginnings(event, value) : before.filter((start) => this.#fits(start, event, value))
    if (this.#possible.length === 0) return this.#ruledOut(event, before)
    this.#count++
    this.#see(event)
    if (event.id !== null) this.#honoured = false
    this.#hold({ event })
    this.#complete = this.#reachedEnd() || this.#complete
    if (this.#complete && this.#outweighed()) this.#decide()
    return this.#complete && this.#decided ? this.#flush() : []
  }

  /** The connection is quiet: what may be new must not wait for the next event. */
  takeQuiet(): readonly Step<E>[] {
    if (this.#decided || !this.#honoured || this.#held.length === 0) return []
    if (this.#possible.includes(this.#afterId)) return []
    this.#decide()
    return this.#flush()
  }

  #beginnings(event: E, value: number): number[] {
    const { first, last } = this.#emission
    const unknown = (start: number): boolean => start < first
    if (this.#mode === 'last-event-id') {
      const start = this.#honoured ? this.#afterId : 1
      return start <= last && this.#fits(start, event, value) ? [start] : []
    }
    const starts = this.#emission.placesOf(value)
    // Events that nobody knows any more cannot be compared: they count by their number alone.
    if (this.#honoured && event.id === null && unknown(this.#afterId)) starts.unshift(this.#afterId)
    const head = this.#emission.digestAt(1)
    const fromStart = head === null ? !this.#honoured : head === value && !(this.#honoured && event.id === null)
    if (unknown(1) && fromStart && starts[0] !== 1) starts.unshift(1)
    return starts
  }

  /** Does this event, the next one, fit a replay that began at `start`? */
  #fits(start: number, event: E, value: number): boolean {
    const known = this.#emission.digestAt(start + this.#count)
    return known === null ? !this.#honoured || event.id === null : known === value
  }

  /** Takes out the replay that has just reached the last stored event, if there is one: it is the shortest. */
  #reachedEnd(): boolean {
    if (this.#possible.at(-1) !== this.#emission.last - this.#count + 1) return false
    this.#possible.pop()
    this.#clearHeld()
    return true
  }

  /**
   * A replay is complete, and the longer ones left are of events too old to be compared. Where the first event is not
   * known either, nothing speaks for them; where it fitted, three that fit up to the last stored event say more.
   */
  #outweighed(): boolean {
    if (this.#possible.some((start) => start + this.#count > this.#emission.first)) return false
    return this.#possible.length === 0 || this.#emission.head === null || this.#count - this.#held.length >= WITNESSES
  }

  /** No replay fits this event. */
  #ruledOut(event: E, before: readonly number[]): readonly Step<E>[] {
    if (this.#complete) return this.#takeHeldAnd(event)
    if (this.#count === 0) return this.#noReplay(event)
    if (this.#honoured && !before.includes(this.#afterId)) return this.#takeHeldAnd(event)
    const start = this.#honoured ? this.#afterId : (before[0] ?? 1)
    return this.#diverged(start + this.#count, event)
  }

  /** The first event fits no replay at all. */
  #noReplay(event: E): readonly Step<E>[] {
    // An id that named another event before: the agent has begun anew. Under the id just resumed from, two may stand.
    const again = event.id === null || event.id === this.#upstreamId ? null : this.#emission.placeOfId(event.id)
    if (again !== null && this.#mode !== 'last-event-id') return this.#diverged(again, event)
    if (this.#honoured) return this.#takeHeldAnd(event)
    const gap = this.#gapStep(this.#mode === 'replay' ? 'window' : 'no-replay')
    return [...gap, ...this.#takeHeldAnd(event)]
  }

  /** What comes stands at `ordinal` in the emission, where something else was stored. */
  #diverged(ordinal: number, event: E): readonly Step<E>[] {
    const honoured = this.#honoured && this.#seenId === null
    const gap = this.#gapStep('diverged')
    this.#ordinal = ordinal - 1
    if (honoured) this.#upstreamOffset = this.#count
    else {
      this.#upstreamId = this.#seenId
      this.#upstreamOffset = this.#seenOffset
    }
    this.#decide()
    this.#clearHeld()
    return [...gap, this.#take(event)]
  }

  #takeHeldAnd(event: E): readonly Step<E>[] {
    this.#decide()
    return [...this.#flush(), this.#take(event)]
  }

  #decide(): void {
    this.#decided = true
    this.#possible = []
  }

  #flush(): readonly Step<E>[] {
    const held = this.#held
    this.#clearHeld()
    return held.flatMap((one) => {
      if ('event' in one) return [this.#take(one.event)]
      if ('tooLarge' in one) return this.tooLarge(one.tooLarge)
      this.moved(one.moved)
      return []
    })
  }

  #hold(one: Held<E>): void {
    // Without a complete replay, and without the id honoured, nothing held could ever be taken.
    if (this.#count > 0 && !this.#complete && !this.#honoured) return this.#clearHeld()
    this.#held.push(one)
    this.#heldCharacters += 'event' in one ? one.event.data.length : 0
    if (this.#held.length <= HELD_EVENTS && this.#heldCharacters <= HELD_CHARACTERS) return
    this.#clearHeld()
    this.#complete = false
    this.#honoured = false
  }

  #clearHeld(): void {
    this.#held = []
    this.#heldCharacters = 0
  }

  #see({ id }: E): void {
    if (id !== null) this.#seenId = id
    if (id !== null) this.#seenOffset = 0
    else if (this.#seenOffset !== null) this.#seenOffset++
  }

  #take(event: E): Step<E> {
    this.#ordinal++
    if (event.id !== null) {
      this.#upstreamId = event.id
      this.#upstreamOffset = 0
    } else if (this.#upstreamId !== null) {
      this.#upstreamOffset = (this.#upstreamOffset ?? 0) + 1
    }
    this.#gap = false
    this.#fresh = true
    this.#emission.push(this.#ordinal, event)
    return { do: 'take', event, ...this.#place() }
  }

  /** One gap is enough where nothing was stored since the last. */
  #gapStep(reason: GapReason): readonly Step<E>[] {
    if (this.#gap) return []
    this.#gap = true
    return [{ do: 'gap', reason, lost: null, ...this.#place() }]
  }

  #place(): Place {
    return { ordinal: this.#ordinal, upstreamId: this.#upstreamId, upstreamOffset: this.#upstreamOffset }
  }
}
