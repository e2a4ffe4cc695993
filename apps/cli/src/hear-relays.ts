import { WATCHDOG, type Beat } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { onBeats } from '@baton/store/peers'

/** Every relay that beats within `listenMs`, by name. A watchdog that ends an orphan beats, too, and is none. */
export async function hearRelays(nats: Nats, listenMs: number, signal: AbortSignal): Promise<Beat[]> {
  const beats = new Map<string, Beat>()
  const over = new AbortController()
  onBeats(nats, (beat) => beats.set(beat.boot, beat), AbortSignal.any([signal, over.signal]))
  await pause(listenMs, signal)
  over.abort()
  const relays = [...beats.values()].filter(({ relay }) => relay !== WATCHDOG)
  return relays.sort((one, other) => one.relay.localeCompare(other.relay))
}
