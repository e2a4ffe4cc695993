import { BatonError } from '@baton/core/errors'
import type { JobSpec } from '@baton/core/run'
import type { Log } from '@baton/service/log'
import { errorName } from './connect-upstream.ts'
import { jobHeaders, type Upstream } from './upstream.ts'

const CANCEL_TIMEOUT_MS = 10_000

/**
 * Asks a job's agent to stop: one POST to its cancel URL with the job's headers and secret, at most 10 s. Whatever comes
 * of it is logged, and is no obstacle: the run is cancelled either way. Rejects only with the signal's reason.
 */
export async function cancelAgent(spec: JobSpec, upstream: Upstream, log: Log, signal: AbortSignal): Promise<void> {
  if (spec.cancel === null) return
  const headers = jobHeaders(spec, upstream.secrets)
  if (headers === null) {
    log.warn({ job: spec.job, detail: `this relay has no secret named ${spec.secret}` }, 'agent.uncancelled')
    return
  }
  const giveUp = new AbortController()
  const timer = setTimeout(() => giveUp.abort(new BatonError('unavailable', 'no answer in 10 s')), CANCEL_TIMEOUT_MS)
  const stop = () => giveUp.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    const url = new URL(spec.cancel)
    const path = `${url.pathname}${url.search}`
    const request = { origin: url.origin, path, method: 'POST' as const, headers, signal: giveUp.signal }
    const { statusCode: status, body } = await upstream.agent.request(request)
    body.on('error', () => undefined)
    body.destroy()
    if (status < 300) log.info({ job: spec.job, status }, 'agent.cancelled')
    else log.warn({ job: spec.job, status }, 'agent.uncancelled')
  } catch (error) {
    if (signal.aborted) throw signal.reason
    log.warn({ job: spec.job, code: errorName(error) }, 'agent.uncancelled')
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}
