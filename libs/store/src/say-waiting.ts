import type { NatsOptions } from './connect.ts'
import type { Log } from './log.ts'
import { isRefusal } from './nats-errors.ts'
import { credentialsOf, shownServers } from './nats-url.ts'

type User = Pick<NatsOptions, 'servers' | 'creds'>

/** Says why there is no connection yet: that the server is away passes by itself, that it does not let us in does not. */
export const sayWaiting =
  (log: Log, options: User) =>
  (error: unknown): void => {
    const servers = options.servers.map(shownServers).join(',')
    const reason = error instanceof Error ? error.message : String(error)
    if (isRefusal(error)) log.error({ servers, reason, check: whatToCheck(options) }, 'login.refused')
    else log.warn({ servers, reason }, 'nats.waiting')
  }

/** Where the user comes from that a server does not let in: the variable to look at. */
export function whatToCheck({ servers, creds }: User): string {
  if (creds !== undefined) return `the user and the key in ${creds} (BATON_NATS_CREDS)`
  if (credentialsOf(servers[0] ?? '') !== null) return 'the user and the password in BATON_NATS_URL'
  return 'whether it asks for a user (BATON_NATS_URL=nats://user:password@host, or a file in BATON_NATS_CREDS)'
}
