import type { Server } from 'node:net'
import { StartError } from './run-service.ts'

/** What is wrong with a place to listen at, by the code of the system's refusal. */
const REFUSALS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use by another process',
  EACCES: 'this user may not use that port',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'there is no such host',
}

/**
 * Has the server listen and returns its port; port 0 takes a free one. `variable` is what an operator changes it with.
 * Throws StartError where the system refuses.
 */
export async function listen(server: Server, host: string, port: number, variable: string): Promise<number> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      // Streams come back all at once when an edge or an agent was away: more may knock than the default lets wait.
      server.listen({ port, host, backlog: 4096 }, resolve)
    })
  } catch (error) {
    const refusal = REFUSALS[(error as NodeJS.ErrnoException).code ?? '']
    if (refusal === undefined) throw error
    throw new StartError(`cannot listen on ${host}:${port}: ${refusal}; change ${variable}`, { cause: error })
  }
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : port
}
