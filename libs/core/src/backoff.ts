/**
 * Full jitter above a floor: a uniform wait between `floorMs` and `min(ceilingMs, baseMs × 2^attempt)`.
 * `attempt` counts from 0; `random` is in [0, 1). Spread matters more than growth: a thousand tails
 * that lost the same server must not come back in step.
 */
export function backoffMs(
  attempt: number,
  random: number,
  limits: { baseMs: number; ceilingMs: number; floorMs: number },
): number {
  const { baseMs, ceilingMs, floorMs } = limits
  const top = Math.max(floorMs, Math.min(ceilingMs, baseMs * 2 ** Math.min(attempt, 30)))
  return Math.round(floorMs + random * (top - floorMs))
}
