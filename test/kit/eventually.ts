import { setTimeout as delay } from 'node:timers/promises'

/**
 * Asks `check` again and again until it neither throws nor answers false, null or undefined, and returns its answer.
 * The limit is generous on purpose: a test waits for a promise, it asserts no measured speed. What the last try said
 * is in the error.
 */
export async function eventually<T>(
  what: string,
  check: () => T | Promise<T>,
  options: { withinMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Exclude<T, false>>> {
  const { withinMs = 30_000, everyMs = 50 } = options
  const untilMs = performance.now() + withinMs
  for (;;) {
    let last: unknown
    try {
      const value = await check()
      if (value !== false && value !== null && value !== undefined) return value as NonNullable<Exclude<T, false>>
      last = `it answered ${String(value)}`
    } catch (error) {
      last = error
    }
    if (performance.now() >= untilMs) {
      throw new Error(`did not happen within ${withinMs} ms: ${what}`, { cause: last })
    }
    await delay(everyMs)
  }
}

/** The condition holds now and goes on holding for `forMs`; throws at the first moment it does not. */
export async function steadily(what: string, check: () => boolean | Promise<boolean>, forMs: number): Promise<void> {
  const untilMs = performance.now() + forMs
  while (performance.now() < untilMs) {
    if (!(await check())) throw new Error(`did not hold for ${forMs} ms: ${what}`)
    await delay(50)
  }
}
