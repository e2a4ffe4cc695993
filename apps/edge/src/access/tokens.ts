import { createHash, type KeyObject } from 'node:crypto'
import { errors, jwtVerify, type JWTPayload, type JWTVerifyOptions } from 'jose'
import { BatonError } from '@baton/core/errors'
import { parseGrants } from '@baton/core/grants'
import type { Log } from '@baton/service/log'
import { unauthorized, type Access } from './access.ts'
import type { AuthConfig, Keys } from './keys.ts'
import { RemoteKeys } from './remote-keys.ts'

/** By how much the clocks of an issuer and an edge may differ. A token is taken, and its streams last, so much longer. */
const TOLERANCE_SECONDS = 5

/** A token may name an end that no clock reaches, and neither dates nor NATS can hold. */
const LONGEST_MS = 10 * 365 * 86_400_000

/** Checks tokens: JWTs (RFC 7519) of the issuers an operator trusts. */
export class Tokens {
  readonly #log: Log
  readonly #keys: RemoteKeys | KeyObject | Uint8Array
  readonly #options: JWTVerifyOptions

  constructor(auth: AuthConfig, log: Log) {
    this.#log = log
    this.#keys = keysOf(auth.keys, log)
    this.#options = {
      algorithms: [...auth.algorithms],
      issuer: [...auth.issuers],
      ...(auth.audience === null ? {} : { audience: auth.audience }),
      clockTolerance: TOLERANCE_SECONDS,
      requiredClaims: ['exp', 'sub'],
    }
  }

  /** What the bearer of a token may do. Throws the 401, and `unavailable` where the keys cannot be had. */
  async read(token: string): Promise<Access> {
    const payload = await this.#verify(token)
    const { iss, sub, exp } = payload
    if (typeof sub !== 'string' || sub === '' || exp === undefined) throw unauthorized('the token names no subject')
    const grants = parseGrants(payload['baton'])
    if (!grants.ok) throw unauthorized(`the grants of the token are malformed: ${grants.reason}`)
    return {
      client: `sub_${createHash('sha256')
        .update(JSON.stringify([iss, sub]))
        .digest('base64url')}`,
      grants: grants.value,
      // Some issuers write fractions of a second, which no timer takes in ms.
      endsAtMs: Math.floor(Math.min((exp + TOLERANCE_SECONDS) * 1000, Date.now() + LONGEST_MS)),
      token: signedPartOf(token),
    }
  }

  close(): void {
    if (this.#keys instanceof RemoteKeys) this.#keys.close()
  }

  async #verify(token: string): Promise<JWTPayload> {
    const keys = this.#keys
    try {
      const { payload } =
        keys instanceof RemoteKeys
          ? await jwtVerify(token, keys.find, this.#options)
          : await jwtVerify(token, keys, this.#options)
      return payload
    } catch (error) {
      if (error instanceof BatonError) throw error
      // Nothing else of an error may be logged or said: what it is about is the token.
      if (!(error instanceof errors.JOSEError)) this.#log.warn({ code: (error as Error).name }, 'token.unreadable')
      throw unauthorized(reasonOf(error))
    }
  }
}

/** A signature can be written in more than one way, also by who cannot sign; what it signs cannot. */
const signedPartOf = (token: string): string => token.slice(0, token.lastIndexOf('.'))

function keysOf(keys: Keys, log: Log): RemoteKeys | KeyObject | Uint8Array {
  if (keys.kind === 'jwks') return new RemoteKeys(keys.url, log)
  return keys.kind === 'secret' ? keys.secret : keys.key
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'the token has expired'
  if (error instanceof errors.JWTClaimValidationFailed)
    return said[error.claim] ?? 'a claim of the token is not accepted'
  if (error instanceof errors.JWKSNoMatchingKey) return 'the token names a key that its issuer does not have'
  if (error instanceof errors.JWKSMultipleMatchingKeys) return 'the token must name its key (kid)'
  return 'the token is not valid here'
}

const said: Readonly<Record<string, string>> = {
  iss: 'the issuer of the token is not trusted here',
  aud: 'the token is for another audience',
  nbf: 'the token is not valid yet',
  exp: 'the token must say when it ends (exp)',
  sub: 'the token must name a subject (sub)',
}
