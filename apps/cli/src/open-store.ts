import { connectNats, type Nats } from '@baton/store/connect'
import { CommandError } from './exit.ts'

export type StoreOptions = { readonly servers: readonly string[]; readonly creds: string | undefined }

const CONNECT_MS = 5000

/** Does the work with a connection to NATS and closes it. A server that does not answer within seconds is an answer. */
export async function withStore<T>(
  options: StoreOptions,
  work: (nats: Nats) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const nats = await open(options, 'baton-cli', signal)
  try {
    return await work(nats)
  } finally {
    await nats.nc.close()
  }
}

export async function open(options: StoreOptions, name: string, signal: AbortSignal): Promise<Nats> {
  const { servers, creds } = options
  let reason = ''
  const limited = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)])
  try {
    return await connectNats({ servers, name, creds }, limited, (error) => {
      reason = error instanceof Error ? error.message : String(error)
    })
  } catch (error) {
    if (signal.aborted || !limited.aborted) throw error
    const where = servers.map((server) => server.replace(/\/\/[^@/]*@/, '//')).join(', ')
    throw new CommandError('unreachable', `NATS does not answer at ${where}${reason === '' ? '' : `: ${reason}`}`)
  }
}
