import { isCode } from '@baton/core/errors'
import type { Nats } from './connect.ts'
import type { Log } from './log.ts'
import { rest } from './rest.ts'
import { applyTopology, planTopology, type Change, type TopologyOptions } from './topology.ts'

const AGAIN_MS = 500
/** Somebody has to come and make what is missing: that is seen soon enough. */
const MISSING_MS = 2000

/**
 * What an app does with streams and buckets before it works: makes what is missing where its user may, and else waits
 * until somebody has, however long NATS takes. What exists and differs is said, not changed.
 */
export async function makeTopology(nats: Nats, options: TopologyOptions, log: Log, signal: AbortSignal): Promise<void> {
  for (let mayMake = true; ;) {
    try {
      const changes = await planTopology(nats, options)
      const missing = changes.filter(({ kind }) => kind === 'create')
      if (mayMake) mayMake = await make(nats, missing, log)
      if (mayMake || missing.length === 0) return sayDifferent(changes, log)
      await rest(MISSING_MS, signal)
    } catch (error) {
      // Not even whether they are there may this user ask; whatever it does next will tell.
      if (isCode(error, 'denied')) return log.warn({ err: error }, 'topology.unchecked')
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
      log.warn({ code: error.code, reason: error.message }, 'topology.waiting')
      await rest(AGAIN_MS, signal)
    }
  }
}

/** False where this user may not; then it has been said. */
async function make(nats: Nats, missing: readonly Change[], log: Log): Promise<boolean> {
  try {
    await applyTopology(nats, missing)
    return true
  } catch (error) {
    if (!isCode(error, 'denied')) throw error
    const streams = missing.map(({ name }) => name)
    const why = `missing: ${streams.join(', ')}. This NATS user may not make them; \`baton setup\` as one that may does`
    log.error({ streams, why }, 'topology.missing')
    return false
  }
}

function sayDifferent(changes: readonly Change[], log: Log): void {
  const streams = changes.filter(({ kind }) => kind === 'update').map(({ name }) => name)
  if (streams.length > 0) log.warn({ streams }, 'topology.different')
}
