import type { JobSpec } from '@baton/core/run'
import type { Agent } from 'undici'
import { createAddressGuard } from './guard-address.ts'
import { createUpstreamAgent } from './upstream-agent.ts'

/** What every tail of a relay shares. */
export type Upstream = {
  readonly agent: Agent
  /** Values of `BATON_SECRET_<NAME>` by NAME. */
  readonly secrets: ReadonlyMap<string, string>
  readonly silenceMs: number
  /** How long a job may stay without a connection before it fails; 0 = for ever. */
  readonly giveUpMs: number
  /** The most data an event may have, in bytes of UTF-8. */
  readonly maxEventBytes: number
  /** In [0, 1); spreads the waits of many tails. */
  readonly random: () => number
}

export function createUpstream(options: {
  allow: readonly string[]
  secrets: ReadonlyMap<string, string>
  silenceMs: number
  giveUpMs: number
  maxEventBytes: number
}): Upstream {
  const { allow, ...rest } = options
  return { ...rest, agent: createUpstreamAgent(createAddressGuard(allow)), random: Math.random }
}

/** These describe one hop or one message; a job that set them would break the request, not configure it. */
const framing = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

export type RequestHeaders = Record<string, string>

/** The job's own headers and its secret. Null when this relay has no secret of that name. */
export function jobHeaders(spec: JobSpec, secrets: ReadonlyMap<string, string>): RequestHeaders | null {
  const headers: RequestHeaders = {}
  for (const [name, value] of Object.entries(spec.headers)) {
    if (!framing.has(name.toLowerCase())) headers[name.toLowerCase()] = value
  }
  if (spec.secret === null) return headers
  const secret = secrets.get(spec.secret)
  if (secret === undefined) return null
  if (spec.secretHeader === null) headers['authorization'] = `Bearer ${secret}`
  else headers[spec.secretHeader.toLowerCase()] = secret
  return headers
}
