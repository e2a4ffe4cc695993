import type { StoredEvent } from '@baton/core/event'
import { decodeEvent } from './codec.ts'
import type { Nats } from './connect.ts'
import { fromNats } from './nats-errors.ts'
import { liveRunSubject } from './names.ts'
import { rawHeaders } from './raw-headers.ts'

/**
 * The live events of a run, as the log republishes them: in order, at most once, only what was stored. Anything may
 * be missing; the dense index tells.
 */
export type Live = {
  /** Resolves when the server has the subscription: what is stored from then on is heard. Rejects with `unavailable`. */
  readonly ready: Promise<void>
  close(): void
}

/** The sequence in the log, put there by the server when it republishes (NATS ADR-28). */
const SEQUENCE = 'Nats-Sequence'

/** Calls `onEvent` for each live event, on the path that reads the socket: it must be quick. */
export function followLive(nats: Nats, run: string, onEvent: (event: StoredEvent) => void): Live {
  const subscription = nats.nc.subscribe(liveRunSubject(run), {
    callback: (error, message) => {
      if (error !== null) return
      const raw = rawHeaders(message)
      const sequence = Number(raw?.find(SEQUENCE))
      const known = Number.isSafeInteger(sequence) && sequence > 0
      const event = known ? decodeEvent(run, sequence, { data: message.data, headers: raw }) : null
      if (event !== null) onEvent(event)
    },
  })
  return {
    ready: nats.nc.flush().catch((error: unknown) => {
      throw fromNats(error, `follow run ${run}`)
    }),
    close: () => subscription.unsubscribe(),
  }
}
