import { STREAM } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import type { NatsServer } from '../kit/nats-server.ts'
import type { World } from './world.ts'

/** The nodes of NATS, the leader of the runs' log first; as they stand where none is to be found. */
export async function leaderFirst({ servers, store }: World): Promise<readonly NatsServer[]> {
  if (servers.length === 1) return servers
  const leader = await eventually(
    'the log has a leader',
    async () => (await store.jsm.streams.info(STREAM.runs)).cluster?.leader,
    {
      withinMs: 15_000,
      everyMs: 100,
    },
  ).catch(() => null)
  return servers.toSorted((one, other) => Number(other.name === leader) - Number(one.name === leader))
}
