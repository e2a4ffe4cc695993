import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** What tokens are checked with. */
export type Keys =
  | { readonly kind: 'secret'; readonly secret: Uint8Array }
  | { readonly kind: 'public'; readonly key: KeyObject }
  | { readonly kind: 'jwks'; readonly url: string }

/** Which tokens are taken; all of it is the operator's word, and nothing of it the token's. */
export type AuthConfig = {
  readonly keys: Keys
  readonly algorithms: readonly string[]
  readonly issuers: readonly string[]
  /** Null: tokens for anybody are taken. */
  readonly audience: string | null
}

/** RFC 7518 §3.2: a key at least as long as the hash. */
const SECRET_BYTES: Readonly<Record<string, number>> = { HS256: 32, HS384: 48, HS512: 64 }
const RSA_BITS = 2048
const RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
const ED25519 = ['EdDSA', 'Ed25519']
const CURVES: Readonly<Record<string, string>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' }

/**
 * Reads a key from a file: a public key in PEM, or a secret as it is (of a text, without the line end after it). Throws a
 * plain sentence for what is neither; above all a public key in any other wrapping must never be taken for a secret, for
 * everybody knows it, and could sign with it.
 */
export function readKeyFile(path: string): Keys {
  const bytes = readFileSync(path)
  const text = bytes.toString('latin1')
  const begin = text.indexOf('-----BEGIN')
  if (begin >= 0) return { kind: 'public', key: readPem(text.slice(begin)) }
  if (isKeyOfAnotherForm(bytes, text))
    throw new Error('is a key, but not in PEM: give a public key in PEM, or a secret')
  const isText = /^[\t\r\n\x20-\x7e]*$/.test(text)
  const secret = isText ? Buffer.from(text.replace(/\r?\n$/, ''), 'latin1') : bytes
  const least = SECRET_BYTES['HS256'] ?? 0
  if (secret.length < least) throw new Error(`must hold at least ${least} bytes, or a public key in PEM`)
  return { kind: 'secret', secret }
}

function readPem(text: string): KeyObject {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY/.test(text)) throw new Error('is a private key: an edge must have the public one')
  let key: KeyObject
  try {
    key = createPublicKey(text)
  } catch {
    throw new Error('is no public key in PEM')
  }
  if (possible({ kind: 'public', key }).length === 0) throw new Error('is a public key of a kind that signs no tokens')
  if (key.asymmetricKeyType === 'rsa' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < RSA_BITS) {
    throw new Error(`is an RSA key of fewer than ${RSA_BITS} bits`)
  }
  return key
}

function isKeyOfAnotherForm(bytes: Buffer, text: string): boolean {
  if (/^\s*(ssh-|ecdsa-)/.test(text)) return true
  if (/^\s*[{[]/.test(text) && /"(kty|keys)"/.test(text)) return true
  return [bytes, Buffer.from(text, 'base64')].some((der) => {
    try {
      return createPublicKey({ key: der, format: 'der', type: 'spki' }) !== null
    } catch {
      return false
    }
  })
}

/** The algorithms that go with keys, whatever a token says. */
export function possible(keys: Keys): readonly string[] {
  if (keys.kind === 'secret') {
    const { length } = keys.secret
    return Object.entries(SECRET_BYTES).flatMap(([name, bytes]) => (length >= bytes ? [name] : []))
  }
  // A set of keys is public by its nature: no secret is ever taken from one.
  if (keys.kind === 'jwks') return [...RSA, ...Object.values(CURVES), ...ED25519]
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = keys.key
  if (type === 'rsa') return RSA
  if (type === 'ed25519') return ED25519
  const curve = type === 'ec' ? CURVES[details?.namedCurve ?? ''] : undefined
  return curve === undefined ? [] : [curve]
}

/** The algorithms that are taken where nobody has said which. */
export function usual(keys: Keys): readonly string[] {
  if (keys.kind === 'jwks') return ['RS256', 'ES256', ...ED25519]
  const all = possible(keys)
  return keys.kind === 'secret' || keys.key.asymmetricKeyType === 'rsa' ? all.slice(0, 1) : all
}
