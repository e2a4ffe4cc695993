// @ts-check
import { join } from 'node:path'
import { execute } from './execute.js'
import { isAtLeast, readVersion } from './version.js'

/** TypeScript without flags, `await using`, and what the apps use of the newest APIs. */
export const NODE_FLOOR = /** @type {const} */ ([26, 0, 0])

/**
 * The Node that runs Baton: the pinned one, which npm brings as a platform package, else the one that runs this
 * script if it is new enough. Null where neither is to be had.
 * @param {string} folder of the checkout
 * @returns {Promise<string | null>}
 */
export async function findNode(folder) {
  const candidates = [join(folder, 'node_modules', '.bin', 'node'), process.execPath]
  for (const candidate of candidates) {
    const { ok, output } = await execute(candidate, ['--version'], { timeoutMs: 10_000 })
    const version = ok ? readVersion(output) : null
    if (version !== null && isAtLeast(version, NODE_FLOOR)) return candidate
  }
  return null
}
