import { afterAll, beforeAll } from 'vitest'

/** Keeps what it is given until the last test is over. */
export type Keep = <T extends AsyncDisposable>(it: T) => T

/**
 * Starts what all tests of a file, or of a `describe`, share. What was kept is disposed of after the last of them, the
 * newest first; also where a later start fails.
 */
export function forAllTests(start: (keep: Keep) => Promise<void>, timeoutMs?: number): void {
  const kept = new AsyncDisposableStack()
  beforeAll(() => start((it) => kept.use(it)), timeoutMs)
  afterAll(() => kept.disposeAsync())
}
