import type { RunHistory, Violation } from './history.ts'

/**
 * I3: no event of an epoch is stored after the owner record of a later one; epochs only grow; an event's epoch is the
 * sequence of an owner record. At the end of a run its owner records are rolled up into one, so a log read late lacks
 * the earlier ones: then `ownersKnown` is false and the events alone must be in order.
 */
export function checkEpochs(history: RunHistory, options: { ownersKnown?: boolean } = {}): Violation[] {
  const { ownersKnown = true } = options
  const complaints: string[] = []
  const owners = new Set<number>()
  let newest = 0
  let newestSeen = 0
  for (const entry of history.log) {
    if (entry.kind === 'owner') {
      newest = entry.sequence
      owners.add(entry.sequence)
      continue
    }
    const { index, epoch, sequence } = entry.event
    const say = (what: string) => complaints.push(`index ${index} (sequence ${sequence}) of epoch ${epoch} ${what}`)
    if (epoch < newest) say(`was stored after the owner record ${newest}`)
    if (epoch < newestSeen) say(`was stored after an event of epoch ${newestSeen}`)
    if (epoch > sequence) say('claims an epoch that did not exist yet')
    if (ownersKnown && !owners.has(epoch)) say('has no owner record')
    newestSeen = Math.max(newestSeen, epoch)
  }
  return complaints.slice(0, 20).map((what) => ({ invariant: 'I3', run: history.run, what }))
}
