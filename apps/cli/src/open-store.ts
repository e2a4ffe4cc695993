import { isCode } from '@baton/core/errors'
import { connectNats, type Nats, type NatsOptions } from '@baton/store/connect'
import { shownServers } from '@baton/store/nats-url'
import { isSetUp } from '@baton/store/is-set-up'
import { isRefusal } from '@baton/store/nats-errors'
import { whatToCheck } from '@baton/store/say-waiting'
import { CommandError } from './exit.ts'

export type StoreOptions = Omit<NatsOptions, 'name'>

const CONNECT_MS = 5000

/**
 * Does the work with a connection to NATS and closes it. A server that does not answer within seconds is an answer, and
 * one that nothing was set up on is told from one that only lacks what was asked for.
 */
export async function withStore<T>(
  options: StoreOptions,
  work: (nats: Nats) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const nats = await open(options, 'baton-cli', signal)
  try {
    return await work(nats)
  } catch (error) {
    if (!isCode(error, 'not_found', 'unavailable') || (await isSetUp(nats))) throw error
    throw new CommandError('wrong', `there is nothing of Baton at ${shown(options)}: \`baton setup\` makes it`)
  } finally {
    await nats.nc.close()
  }
}

export async function open(options: StoreOptions, name: string, signal: AbortSignal): Promise<Nats> {
  let reason = ''
  const refused = new AbortController()
  const limited = AbortSignal.any([signal, refused.signal, AbortSignal.timeout(CONNECT_MS)])
  try {
    return await connectNats({ ...options, name }, limited, (error) => {
      reason = error instanceof Error ? error.message : String(error)
      if (isRefusal(error)) refused.abort()
    })
  } catch (error) {
    if (signal.aborted || !limited.aborted) throw error
    const why = reason === '' ? '' : `: ${reason}`
    if (refused.signal.aborted) {
      throw new CommandError(
        'denied',
        `NATS at ${shown(options)} does not let this user in${why}; check ${whatToCheck(options)}`,
      )
    }
    throw new CommandError('unreachable', `NATS does not answer at ${shown(options)}${why}`)
  }
}

const shown = ({ servers }: StoreOptions): string => servers.map(shownServers).join(', ')
