import { errors } from '@nats-io/nats-core'
import type { Nats } from './connect.ts'
import type { Log } from './log.ts'

/** What the server does not let the user of a connection do. */
export type Refusal = { readonly operation: 'publish' | 'subscribe'; readonly subject: string }

/**
 * Calls `onRefusal` for all that is refused, until the returned function is called. A publish without an answer, or a
 * subscription, that is refused otherwise looks like silence.
 */
export function onRefusals({ nc }: Nats, onRefusal: (refusal: Refusal) => void): () => void {
  const status = nc.status()
  const follow = async (): Promise<void> => {
    for await (const one of status) {
      if (one.type !== 'error' || !(one.error instanceof errors.PermissionViolationError)) continue
      const { operation, subject } = one.error
      onRefusal({ operation: operation === 'publish' ? 'publish' : 'subscribe', subject })
    }
  }
  void follow()
  return () => (status as unknown as { stop(): void }).stop()
}

/** One line in so long: what is refused is tried again and again, for each run anew. */
const SAY_EVERY_MS = 10_000

/** Says what is refused, as long as the connection lasts. `others`: how many more there were since the line before. */
export function sayRefusals(nats: Nats, log: Log): void {
  let saidAtMs = Number.NEGATIVE_INFINITY
  let others = 0
  onRefusals(nats, (refusal) => {
    if (performance.now() - saidAtMs < SAY_EVERY_MS) {
      others++
      return
    }
    log.error({ ...refusal, others }, 'nats.refused')
    saidAtMs = performance.now()
    others = 0
  })
}
