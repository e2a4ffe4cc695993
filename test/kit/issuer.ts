import { createServer, type Server } from 'node:http'
import type { AuthConfig } from '../../apps/edge/src/access/keys.ts'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose'

export const ISSUER = 'https://issuer.example'
/** What tests sign with where a shared secret is enough. */
export const SECRET = Buffer.from('a secret that only tests know, long enough for HS512 and then some')

/** An edge that takes the tokens of `signToken`. */
export const BY_SECRET: AuthConfig = {
  keys: { kind: 'secret', secret: SECRET },
  algorithms: ['HS256'],
  issuers: [ISSUER],
  audience: null,
}

export type Claims = JWTPayload & { baton?: unknown }

/** A token of the tests' issuer that lasts ten minutes, unless its claims say otherwise. */
export function signToken(
  claims: Claims = {},
  key: CryptoKey | Uint8Array = SECRET,
  header: { alg: string; kid?: string } = { alg: 'HS256' },
): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + 600
  return new SignJWT({ iss: ISSUER, sub: 'somebody', exp, ...claims }).setProtectedHeader(header).sign(key)
}

/** The header that shows such a token. */
export const bearer = async (claims: Claims = {}): Promise<{ authorization: string }> => ({
  authorization: `Bearer ${await signToken(claims)}`,
})

/** Asks an edge for a ticket with such a token. */
export const askTicket = async (edge: { readonly url: string }, claims: Claims): Promise<Response> =>
  fetch(`${edge.url}/tickets`, { method: 'POST', headers: await bearer(claims) })

type Pair = { readonly kid: string; readonly jwk: JWK; readonly privateKey: CryptoKey }

/** An issuer with a JWKS over HTTP: its keys can change, and it can be away. */
export class Issuer {
  readonly #server: Server
  readonly #port: number
  #pairs: Pair[] = []
  #made = 0
  /** Requests for the set so far. */
  looks = 0

  private constructor(server: Server, port: number) {
    this.#server = server
    this.#port = port
    server.on('request', (_, response) => {
      this.looks++
      const keys = this.#pairs.map(({ jwk }) => jwk)
      response.writeHead(200, { 'content-type': 'application/json', connection: 'close' })
      response.end(JSON.stringify({ keys }))
    })
  }

  static async start(alg = 'ES256'): Promise<Issuer> {
    const server = createServer()
    const issuer = new Issuer(server, await listenOn(server, 0))
    await issuer.addKey(alg)
    return issuer
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/jwks.json`
  }

  /** A new key beside those there are; the next token is signed with it. */
  async addKey(alg = 'ES256'): Promise<void> {
    const kid = `key-${++this.#made}`
    const { publicKey, privateKey } = await generateKeyPair(alg)
    this.#pairs.unshift({ kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } })
  }

  /** Takes all keys but the newest out of the set. */
  dropOldKeys(): void {
    this.#pairs = this.#pairs.slice(0, 1)
  }

  sign(claims: Claims = {}): Promise<string> {
    const [newest] = this.#pairs
    if (newest === undefined) throw new Error('the issuer has no key')
    return signToken(claims, newest.privateKey, { alg: newest.jwk.alg ?? '', kid: newest.kid })
  }

  async goAway(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  async comeBack(): Promise<void> {
    await listenOn(this.#server, this.#port)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.goAway()
  }
}

function listenOn(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}
