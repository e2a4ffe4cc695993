/**
 * An agent may say that it will be busy until some time and not to be worried about: an event of type `busy` with the data
 * `{"until": T}`, T in RFC 3339 or unix ms. Its newest word counts; a T that has passed takes an earlier one back.
 */
export const BUSY = 'busy'

/** Nobody is left alone for longer on one word of its own; it may say it again. */
const MAX_BUSY_MS = 86_400_000

/** For how many ms from now the agent will be busy, at most a day; 0 = no longer, null = that is no such word. */
export function readBusyMs(data: string, nowMs: number): number | null {
  const untilMs = untilOf(data)
  return untilMs === null ? null : Math.min(MAX_BUSY_MS, Math.max(0, Math.round(untilMs - nowMs)))
}

function untilOf(data: string): number | null {
  try {
    const until = (JSON.parse(data) as { until?: unknown } | null)?.until
    const ms = typeof until === 'number' ? until : typeof until === 'string' ? Date.parse(until) : Number.NaN
    return Number.isFinite(ms) ? ms : null
  } catch {
    return null
  }
}
