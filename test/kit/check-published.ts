import type { Violation } from './history.ts'
import type { Stored } from './check-follower.ts'

/** One event somebody wanted to be stored; its data is like no other's. */
export type Published = {
  readonly topic: string
  readonly data: string
  /** `unknown`: no answer, or one that says nothing either way. It may be stored, once, or not. */
  readonly outcome: 'acked' | 'unknown'
  /** Where the ack said it is stored. */
  readonly sequence: number | null
}

/** I4: whatever was acked is stored, where and as it was said; what is stored was attempted, and is stored once. */
export function checkPublished(published: readonly Published[], stored: readonly Stored[]): Violation[] {
  const bySequence = new Map(stored.map((one) => [one.sequence, one]))
  const attempted = new Map(published.map((one) => [one.data, one]))
  const complaints: string[] = []
  for (const { topic, data, outcome, sequence } of published) {
    if (outcome === 'unknown') continue
    const found = bySequence.get(sequence ?? -1)
    if (found?.data !== data || found.of !== topic)
      complaints.push(
        `acked as sequence ${sequence}, but there is ${found === undefined ? 'nothing' : `${found.of}: ${found.data}`}: ${topic} ${data}`,
      )
  }
  const seen = new Map<string, number>()
  for (const { sequence, data, of } of stored) {
    const before = seen.get(data)
    if (attempted.get(data)?.topic !== of) complaints.push(`sequence ${sequence} was never published: ${of} ${data}`)
    else if (before !== undefined) complaints.push(`${data} is stored twice: as ${before} and as ${sequence}`)
    seen.set(data, sequence)
  }
  return complaints.slice(0, 20).map((what) => ({ invariant: 'I4', run: 'topics', what }))
}

/** What a native subscriber heard of a run. There may be holes, and around a change of leaders it may be heard again. */
export type Heard = { readonly run: string; readonly sequence: number; readonly index: number; readonly data: string }

/**
 * I4 as a native subscriber sees it: what was republished is stored, as it was heard, and came in its order. Where there are
 * several nodes it may come again, for a leader republishes what it commits, also what an earlier one had committed and told
 * nobody; who drops what is not newer, as nats/README.md says, has it in order and once.
 */
export function checkHeard(
  heard: readonly Heard[],
  stored: ReadonlyMap<string, ReadonlyMap<number, { readonly index: number; readonly data: string }>>,
  mayComeAgain: boolean,
): Violation[] {
  const newest = new Map<string, number>()
  const complaints = heard.flatMap(({ run, sequence, index, data }) => {
    const found = stored.get(run)?.get(sequence)
    const before = newest.get(run) ?? 0
    newest.set(run, Math.max(before, sequence))
    if (found?.index !== index || found.data !== data)
      return [{ run, what: `sequence ${sequence} was heard, and is not stored so` }]
    return sequence > before || mayComeAgain ? [] : [{ run, what: `sequence ${sequence} was heard after ${before}` }]
  })
  return complaints.slice(0, 20).map(({ run, what }) => ({ invariant: 'I4', run, what: `native subscriber: ${what}` }))
}
