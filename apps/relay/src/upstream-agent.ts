import { lookup, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { BatonError } from '@baton/core/errors'
import { Agent, buildConnector } from 'undici'
import type { AddressGuard } from './guard-address.ts'

const CONNECT_TIMEOUT_MS = 15_000
const HEADERS_TIMEOUT_MS = 30_000
/** Finds a peer that vanished without a word; the silence clock alone would take half an hour. */
const KEEPALIVE_MS = 30_000

const refusal = (host: string): BatonError =>
  new BatonError('denied', `${host} is not a public address, and BATON_UPSTREAM_ALLOW does not list it`)

/** Resolves a name to those of its addresses the guard lets through. What is connected to is what was checked. */
const guardedLookup =
  (guard: AddressGuard): LookupFunction =>
  (host, options, callback) => {
    lookup(host, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error !== null) return callback(error, [])
      const allowed = found.filter(({ address }) => guard(host, address))
      const [first] = allowed
      if (first === undefined) return callback(refusal(host), [])
      if (options.all === true) callback(null, allowed)
      else callback(null, first.address, first.family)
    })
  }

/**
 * The one HTTP client of a relay, for upstreams only: a connection per tail and no limit on their number, HTTP/1.1 (one
 * lost HTTP/2 session would cut many tails at once), no end of a quiet body, and no address the guard refuses.
 */
export function createUpstreamAgent(guard: AddressGuard): Agent {
  const connector = buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelay: KEEPALIVE_MS,
    lookup: guardedLookup(guard),
    allowH2: false,
  })
  return new Agent({
    headersTimeout: HEADERS_TIMEOUT_MS,
    bodyTimeout: 0,
    allowH2: false,
    connect: (options, callback) => {
      const { hostname } = options
      // A literal address is never looked up, so it is checked here.
      const literal = hostname.replace(/^\[|\]$/g, '')
      if (isIP(literal) !== 0 && !guard(literal, literal)) return callback(refusal(literal), null)
      connector(options, callback)
    },
  })
}
