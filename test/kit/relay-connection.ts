import { RELAY_CONNECTION } from '@baton/store/names'
import { eventually } from './eventually.ts'
import type { App } from './process.ts'
import type { System } from './system.ts'

/** The name of a relay's connection to NATS, as it is now. */
export function relayConnection(relay: App): string {
  const boots = [...relay.output.matchAll(/"boot":"([0-9a-f]+)"/g)].map((found) => found[1])
  return `${RELAY_CONNECTION}${boots.at(-1)}`
}

/** Lets the first two relays be connected to different nodes of the cluster, which either chose by chance. */
export async function partRelays({ cluster, relays }: System): Promise<void> {
  await eventually('the relays are at different nodes', async () => {
    const [one, other] = await Promise.all(relays.map(async (relay) => cluster.nodeOf(relayConnection(relay))))
    if (one !== other) return true
    await relays[1]?.restart()
    return false
  })
}
