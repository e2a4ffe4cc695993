import type { StoredEvent } from './event.ts'
import type { Order } from './splice.ts'

/** One event of a topic as the log keeps it. */
export type TopicEvent = {
  readonly topic: string
  readonly sequence: number
  /** What its publisher called it; `message` where it said nothing. */
  readonly type: string
  /** RFC 3339: when it was stored. */
  readonly time: string
  /** Exactly as it was published. */
  readonly data: string
}

/** Something may be missing anywhere before this sequence that was not there any more when what follows was read. */
export type Loss = { readonly until: number }

/**
 * An event of a topic, or of one of several runs, in the order of their stream. Its identity is the sequence together
 * with the time of storing, which tells two streams of one name apart.
 */
export type TimedEvent = {
  readonly sequence: number
  /** The NATS time of the message, unix ms. */
  readonly atMs: number
  readonly subject: string
  /** Heard live: the sequence before it in its subject, 0 where nothing of it was kept. Null where it was read. */
  readonly previous: number | null
  /** What the log may have lost where this was read; null where it has lost nothing. */
  readonly loss: Loss | null
  readonly event: TopicEvent | StoredEvent
}

const position = ({ sequence, atMs }: TimedEvent) => ({ sequence, mark: atMs })
const lossOf = ({ loss }: TimedEvent) => loss

/**
 * One topic: every message that is heard names the one before it, which must be the one that was handed out last, and not
 * merely an older one: in a stream made anew sequences begin again. What is read is consecutive but for losses.
 */
export const topicOrder: Order<TimedEvent> = {
  position,
  loss: lossOf,
  follows: () => true,
  continues: (_last, { previous }, before) => previous === (before?.sequence ?? 0),
  // Stored later, and yet before it: sequences began again. A stream that has grown past may name the right one by chance.
  contradicts: (last, { sequence, atMs }) => sequence <= last.sequence && atMs > last.mark,
}

/** A set: what its one consumer delivers is consecutive, too, but for what the log had lost when it came to it. */
export const setOrder: Order<TimedEvent> = {
  position,
  loss: lossOf,
  follows: () => true,
  continues: (_last, { loss }) => loss === null,
  blind: true,
}
