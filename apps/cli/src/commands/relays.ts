import type { Beat } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { onBeats } from '@baton/store/peers'
import { table, type Print } from '../print.ts'

/** Every relay that beats within `listenMs`, by name. */
export async function hearRelays(nats: Nats, listenMs: number, signal: AbortSignal): Promise<Beat[]> {
  const beats = new Map<string, Beat>()
  const over = new AbortController()
  onBeats(nats, (beat) => beats.set(beat.boot, beat), AbortSignal.any([signal, over.signal]))
  await pause(listenMs, signal)
  over.abort()
  return [...beats.values()].sort((one, other) => one.relay.localeCompare(other.relay))
}

/** Lists the relays that are alive, as they say themselves. */
export async function relays(nats: Nats, listenMs: number, print: Print, signal: AbortSignal): Promise<void> {
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
  const text = table(['RELAY', 'BOOT', 'PID', 'HOST', 'RUNS', 'LOOP LAG', ''], rows)
  print.result(found, found.length === 0 ? `no relay was heard within ${listenMs} ms` : text)
}
