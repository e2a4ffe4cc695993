import { listKeys } from '@baton/store/bucket'
import { BUCKET } from '@baton/store/names'
import { withStore, type StoreOptions } from './open-store.ts'

/** The command a shell asks for completions. */
export const COMPLETE = 'complete'

/** A person waits at the prompt. */
const PATIENCE_MS = 1500
const MOST = 1000

/** The ids of runs, for a shell; none where NATS does not answer at once, for a prompt is no place for complaints. */
export async function completableRuns(store: () => StoreOptions, signal: AbortSignal): Promise<readonly string[]> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)])
  try {
    const listed = withStore(store(), (nats) => listKeys(nats, BUCKET.runs, limited), limited)
    const late = new Promise<[]>((resolve) => limited.addEventListener('abort', () => resolve([]), { once: true }))
    const entries = await Promise.race([listed.catch(() => []), late])
    return entries.slice(-MOST).map(({ key }) => key)
  } catch {
    return []
  }
}
