// @ts-check

/**
 * A line for the person who waits. On stderr, so that the output of a command stays clean for pipes.
 * @param {string} line
 */
export const say = (line) => void process.stderr.write(`${line}\n`)

/**
 * Says what is being done, and every ten seconds that it still is: a silent minute looks like a hang.
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function showing(what, work) {
  const startedMs = Date.now()
  const seconds = () => Math.round((Date.now() - startedMs) / 1000)
  say(`baton: ${what} …`)
  const ticking = setInterval(() => say(`baton:   … still at it, ${seconds()} s`), 10_000)
  try {
    const result = await work()
    say(`baton:   done in ${seconds()} s`)
    return result
  } finally {
    clearInterval(ticking)
  }
}

/** A reason to stop that a person can act on: it is shown without a stack. */
export class SetupError extends Error {
  /** @override */
  name = 'SetupError'
}
