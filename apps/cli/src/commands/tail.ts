import type { Command } from 'commander'
import { edgeOptions, isSendable, readEdges, type EdgeFlags } from '../edge-options.ts'
import { CommandError } from '../exit.ts'
import { followEdge } from '../follow-edge.ts'
import { examples } from '../parse-argument.ts'
import type { Tools } from '../surroundings.ts'

type Flags = EdgeFlags & { readonly from: string; readonly lastEventId?: string; readonly types?: string }

/** `baton tail run` and `baton tail topic`: what comes, as it comes, through edges. */
export function tailCommand(program: Command, { print, edges, warn, signal }: Tools): void {
  const tail = program
    .command('tail')
    .description('follow events; comes back by itself when an edge goes away')
    .helpCommand(false)
  const common = (given: Flags) => {
    const { lastEventId = null } = given
    if (lastEventId !== null && !isSendable(lastEventId)) {
      throw new CommandError('usage', '--last-event-id: has characters that no header can hold')
    }
    return { edges: readEdges(given, edges()), lastEventId, onTrouble: warn }
  }

  edgeOptions(tail.command('run').description('print the events of a run to its end; then 0 if it completed, else 1'))
    .argument('<run>', 'its id')
    .option('--from <position>', 'start, now, an index, or -<count>', 'start')
    .option('--last-event-id <id>', 'go on after this position')
    .option('--types <a,b>', 'only events of these types')
    .addHelpText('after', examples('baton tail run mine --from -10', 'baton tail run mine --json | jq -r .data'))
    .action(async (run: string, given: Flags) => {
      const query = { from: given.from, types: given.types ?? null }
      const target = { path: `/runs/${encodeURIComponent(run)}/events`, query, what: `run ${run}` }
      const reason = await followEdge({ ...target, ...common(given) }, print(), signal)
      // Stopped before its end is not the same as completed.
      if (reason === null) signal.throwIfAborted()
      if (reason !== null && reason !== 'completed') throw new CommandError('wrong', `${run} ended: ${reason}`)
    })

  edgeOptions(tail.command('topic').description('print the events of topics, until Ctrl-C'))
    .argument('<filter...>', 'a topic, or a NATS filter with * and >')
    .option('--from <position>', 'now, start, a sequence, -<count>, or a time (RFC 3339)', 'now')
    .option('--last-event-id <id>', 'go on after this position')
    .addHelpText('after', examples("baton tail topic 'orders.*' labels.42", 'baton tail topic orders.42 --from -10'))
    .action(async (topic: string[], given: Flags) => {
      const target = { path: '/topics/events', query: { topic, from: given.from }, what: 'such topic' }
      await followEdge({ ...target, ...common(given) }, print(), signal)
    })
}
