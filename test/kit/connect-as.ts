import { connectNats, type Nats } from '@baton/store/connect'
import type { Role } from './nats-server.ts'

/** A connection as the user of a role, to a server or to all nodes of a cluster. */
export async function connectAs(
  server: { urlOf(role: Role): string },
  role: Role,
): Promise<{ nats: Nats } & AsyncDisposable> {
  const servers = server.urlOf(role).split(',')
  const nats = await connectNats({ servers, name: `test-${role}` }, AbortSignal.timeout(20_000))
  return { nats, [Symbol.asyncDispose]: () => nats.nc.close() }
}
