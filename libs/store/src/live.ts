import type { StoredEvent } from '@baton/core/event'
import type { Heard } from '@baton/core/splice'
import type { TimedEvent } from '@baton/core/timed'
import { decodeEvent } from './codec.ts'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'
import { liveRunSubject, liveTopicSubject } from './names.ts'
import { rawHeaders } from './raw-headers.ts'
import { fromLive } from './timed.ts'

/**
 * Live events as the log republishes them. Anything may be missing: the dense index of a run tells, and the sequence before it
 * in its topic. Around a change of leaders the last ones may come again: what is not newer than the last is to be dropped.
 */
export type Live = {
  /** Resolves when the server has the subscription: what is stored from then on is heard. Rejects with `unavailable`. */
  readonly ready: Promise<void>
  close(): void
}

/** The sequence in the log, and that of the message before it in its subject: what a server republishes has both (NATS ADR-28). */
const SEQUENCE = 'Nats-Sequence'
const PREVIOUS = 'Nats-Last-Sequence'

/** A number the server writes; null for what it cannot have written. */
function wholeNumber(text: string | null | undefined): number | null {
  return text !== null && text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** Calls `onEvent` for each live event, on the path that reads the socket: it must be quick. */
export function followLive(nats: Nats, run: string, onEvent: (event: Heard<StoredEvent>) => void): Live {
  const subscription = nats.nc.subscribe(liveRunSubject(run), {
    callback: (error, message) => {
      if (error !== null) return
      const raw = rawHeaders(message)
      const sequence = wholeNumber(raw?.stamped(SEQUENCE))
      const previous = wholeNumber(raw?.stamped(PREVIOUS))
      if (sequence === null || previous === null) return
      const event = decodeEvent(run, sequence, { data: message.data, headers: raw })
      if (event !== null) onEvent(Object.assign(event, { previous }))
    },
  })
  return {
    ready: nats.nc.flush().catch((error: unknown) => {
      throw fromNats(error, `follow run ${run}`)
    }),
    close: () => subscription.unsubscribe(),
  }
}

/** As `followLive`, for one topic without wildcards. */
export function followTopic(nats: Nats, topic: string, onEvent: (event: TimedEvent) => void): Live {
  const subscription = nats.nc.subscribe(liveTopicSubject(topic), {
    callback: (error, message) => {
      const event = error === null ? fromLive(message) : null
      if (event !== null) onEvent(event)
    },
  })
  return {
    ready: nats.nc.flush().catch((error: unknown) => {
      throw fromNats(error, `follow topic ${topic}`)
    }),
    close: () => subscription.unsubscribe(),
  }
}
