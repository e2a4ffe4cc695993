import { isCode } from '@baton/core/errors'
import type { Nats } from './connect.ts'
import type { Log } from './log.ts'
import { rest } from './rest.ts'
import { ensureTopology, type TopologyOptions } from './topology.ts'

const AGAIN_MS = 500

/**
 * What an app does with streams and buckets before it works: makes what is missing where its user may, however long
 * NATS takes. What exists and differs is said, not changed.
 */
export async function makeTopology(nats: Nats, options: TopologyOptions, log: Log, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      const changes = await ensureTopology(nats, options)
      const different = changes.filter(({ kind }) => kind === 'update').map(({ name }) => name)
      if (different.length > 0) log.warn({ streams: different }, 'topology.different')
      return
    } catch (error) {
      if (isCode(error, 'denied')) return log.warn({ err: error }, 'topology.unchecked')
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
      log.warn({ code: error.code }, 'topology.waiting')
      await rest(AGAIN_MS, signal)
    }
  }
}
