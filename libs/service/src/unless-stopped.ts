/**
 * What a process does before it works: the result, or null where it was asked to stop meanwhile. It holds nothing yet, so
 * that is a clean end and no failure.
 */
export async function unlessStopped<T>(starting: Promise<T>, stop: AbortSignal): Promise<T | null> {
  try {
    return await starting
  } catch (error) {
    if (stop.aborted) return null
    throw error
  }
}
