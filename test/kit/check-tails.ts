import type { RunHistory, Violation } from './history.ts'

export type Span = { readonly fromMs: number; readonly toMs: number }

/**
 * I5: one upstream connection per job, except for the length of a suspicion window: two connections of a job may
 * overlap for at most `boundMs`. `nowMs` stands for the end of those still open. Time in which a process was frozen
 * does not count: the kernel keeps its sockets open, and nothing it could do would close them.
 */
export function checkTails(
  history: RunHistory,
  options: { boundMs: number; nowMs: number; frozen?: readonly Span[] },
): Violation[] {
  const { boundMs, nowMs, frozen = [] } = options
  return history.jobs.flatMap(({ job, connections }) => {
    const spans = connections
      .map(({ openedAtMs, closedAtMs }) => ({ fromMs: openedAtMs, toMs: closedAtMs ?? nowMs }))
      .sort((one, other) => one.fromMs - other.fromMs)
    const complaints: Violation[] = []
    let longest: Span | null = null
    for (const span of spans) {
      const overlap = { fromMs: span.fromMs, toMs: Math.min(longest?.toMs ?? 0, span.toMs) }
      const overlapMs = outsideMs(overlap, frozen)
      if (overlapMs > boundMs) {
        const since = new Date(span.fromMs).toISOString()
        const what = `job ${job}: two connections for ${Math.round(overlapMs)} ms from ${since}, at most ${boundMs} ms are allowed`
        complaints.push({ invariant: 'I5', run: history.run, what })
      }
      if (longest === null || span.toMs > longest.toMs) longest = span
    }
    return complaints
  })
}

/** How much of a span lies outside all of the others. */
function outsideMs(span: Span, others: readonly Span[]): number {
  let [atMs, outside] = [span.fromMs, 0]
  for (const other of others.toSorted((one, two) => one.fromMs - two.fromMs)) {
    if (other.toMs <= atMs || other.fromMs >= span.toMs) continue
    outside += Math.max(0, other.fromMs - atMs)
    atMs = other.toMs
  }
  return outside + Math.max(0, span.toMs - atMs)
}
