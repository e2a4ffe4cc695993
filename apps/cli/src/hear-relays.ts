import type { Beat } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { onBeats } from '@baton/store/peers'

/** Every relay that beats within `listenMs`, by name. */
export async function hearRelays(nats: Nats, listenMs: number, signal: AbortSignal): Promise<Beat[]> {
  const beats = new Map<string, Beat>()
  const over = new AbortController()
  onBeats(nats, (beat) => beats.set(beat.boot, beat), AbortSignal.any([signal, over.signal]))
  await pause(listenMs, signal)
  over.abort()
  return [...beats.values()].sort((one, other) => one.relay.localeCompare(other.relay))
}
