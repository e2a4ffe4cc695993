import type { Command } from 'commander'
import type { Nats } from '@baton/store/connect'
import { hearRelays } from '../hear-relays.ts'
import { count } from '../parse-argument.ts'
import { table, type Print } from '../print.ts'
import type { Tools } from '../surroundings.ts'

/** `baton relays`: those that are alive, as they say themselves. */
export function relaysCommand(program: Command, { inStore, print, signal }: Tools): void {
  program
    .command('relays')
    .description('list the relays that are alive')
    .option('--listen <ms>', 'for how long; a relay beats every 200 ms unless told otherwise', count, 600)
    .action((given: { listen: number }) => inStore((nats) => relays(nats, given.listen, print(), signal)))
}

async function relays(nats: Nats, listenMs: number, print: Print, signal: AbortSignal): Promise<void> {
  const found = await hearRelays(nats, listenMs, signal)
  const rows = found.map((beat) => [
    beat.relay,
    beat.boot,
    String(beat.pid),
    beat.host,
    String(beat.runs),
    `${Math.round(beat.loopLagMs)} ms`,
    beat.draining ? 'draining' : '',
  ])
  const text = table(['RELAY', 'BOOT', 'PID', 'HOST', 'RUNS', 'LOOP LAG', ''], rows, print.width)
  print.result(found, found.length === 0 ? `no relay was heard within ${listenMs} ms` : text)
}
