import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type FetchImplementation,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
} from 'jose'
import { BatonError } from '@baton/core/errors'
import type { Log } from '@baton/service/log'
import { sleep } from '@baton/service/sleep'

type RemoteKeysOptions = {
  /** Between two looks at the set there lies at least so long. */
  readonly cooldownMs?: number
  /** The set is looked at so often without being asked, so that a key taken out of it is not believed for ever. */
  readonly refreshMs?: number
}

/** Requests that wait for a look at the set; more are told to come back. */
const MAX_WAITING = 1000
/** Ids of keys that the last looks did not find. */
const MAX_UNKNOWN = 1000
const MAX_KID_CHARACTERS = 256
const UNKNOWN_MS = 10_000
const FETCH_MS = 5000
/** A set is a few kilobytes; of an answer that is longer than this no more is held. */
const MAX_SET_BYTES = 2 ** 20

/**
 * The keys of an issuer, from its JWKS (RFC 7517). Keys once seen stay in use while the set cannot be had. An id never
 * seen is looked for, by one request for all who ask: who comes soon after a look waits for the next one, since others
 * may have spent it on ids that they made up.
 */
export class RemoteKeys {
  readonly #set: ReturnType<typeof createRemoteJWKSet>
  readonly #log: Log
  readonly #cooldownMs: number
  readonly #over = new AbortController()
  readonly #refresher: NodeJS.Timeout
  readonly #unknown = new Map<string, number>()
  #look: Promise<void> | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #failed = false
  #waiting = 0

  constructor(url: string, log: Log, options: RemoteKeysOptions = {}) {
    const { cooldownMs = 2000, refreshMs = 600_000 } = options
    this.#log = log
    this.#cooldownMs = cooldownMs
    if (!isSafe(url)) log.warn('jwks.unprotected')
    // When to look is decided here: by itself it would forget all keys while the set is away, and ask without end.
    this.#set = createRemoteJWKSet(new URL(url), {
      cacheMaxAge: Infinity,
      cooldownDuration: Infinity,
      timeoutDuration: FETCH_MS,
      [customFetch]: fetchSet,
    })
    this.#refresher = setInterval(() => void this.#lookAgain().catch(() => undefined), refreshMs)
    void this.#lookAgain().catch(() => undefined)
  }

  /** The key a token names. Throws what jose throws for one that is not there, and `unavailable` where nobody knows. */
  readonly find = async (header: JWSHeaderParameters, token: FlattenedJWSInput) => {
    if (this.#set.jwks() === undefined) await this.#wait()
    try {
      return await this.#set(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#isUnknown(header.kid)) throw error
    }
    await this.#wait()
    try {
      return await this.#set(header, token)
    } catch (error) {
      this.#remember(header.kid)
      throw error
    }
  }

  close(): void {
    clearInterval(this.#refresher)
    this.#over.abort(new BatonError('unavailable', 'the edge is closed'))
  }

  async #wait(): Promise<void> {
    if (this.#waiting >= MAX_WAITING) throw new BatonError('unavailable', 'too many wait for the keys of the issuer')
    this.#waiting++
    try {
      await this.#lookAgain()
    } finally {
      this.#waiting--
    }
  }

  #lookAgain(): Promise<void> {
    this.#look ??= this.#lookInTime().finally(() => (this.#look = null))
    return this.#look
  }

  async #lookInTime(): Promise<void> {
    const restMs = this.#lookedAtMs + this.#cooldownMs - performance.now()
    if (restMs > 0 && this.#failed) throw away()
    if (restMs > 0) await sleep(restMs, this.#over.signal)
    this.#lookedAtMs = performance.now()
    try {
      await this.#set.reload()
      if (this.#failed) this.#log.info({ keys: this.#set.jwks()?.keys.length }, 'jwks.back')
      this.#failed = false
    } catch (error) {
      this.#failed = true
      this.#log.warn({ err: error }, 'jwks.unavailable')
      throw away(error)
    } finally {
      this.#lookedAtMs = performance.now()
    }
  }

  #isUnknown(kid = ''): boolean {
    const sinceMs = this.#unknown.get(kid)
    return sinceMs !== undefined && performance.now() - sinceMs < UNKNOWN_MS
  }

  #remember(kid = ''): void {
    if (kid.length > MAX_KID_CHARACTERS) return
    this.#unknown.delete(kid)
    this.#unknown.set(kid, performance.now())
    const [oldest] = this.#unknown.keys()
    if (this.#unknown.size > MAX_UNKNOWN && oldest !== undefined) this.#unknown.delete(oldest)
  }
}

const fetchSet: FetchImplementation = async (url, options) => {
  const response = await fetch(url, options)
  if (response.status !== 200) return response
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.byteLength
    if (bytes > MAX_SET_BYTES) throw new BatonError('too_large', `the set of keys has more than ${MAX_SET_BYTES} bytes`)
    parts.push(part)
  }
  return new Response(Buffer.concat(parts))
}

/** Whoever stands between us and the keys, and can change them, can make tokens. */
const isSafe = (url: string): boolean => {
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)
}

const away = (cause?: unknown): BatonError =>
  new BatonError('unavailable', 'the keys of the issuer cannot be had', { cause })
