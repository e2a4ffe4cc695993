import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CompactSign, exportJWK, generateKeyPair, type CryptoKey } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ISSUER, signToken, type Claims } from '../kit/issuer.ts'
import { LogServer } from '../kit/log-server.ts'
import { startEdge, type App } from '../kit/process.ts'

/** Tokens that are malformed, forged, or of somebody who may not: none gets in, and none gets into a log. */

const AUDIENCE = 'baton.example'
const GRANTS = { subscribe: ['run:mine', 'topic:orders.*'], publish: ['topic:orders.*'] }
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = publicKey.export({ format: 'pem', type: 'spki' })
const now = Math.floor(Date.now() / 1000)

let folder: string
let log: LogServer
let edge: App
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baton-forged-'))
  await writeFile(join(folder, 'public.pem'), PEM)
  log = await LogServer.start()
  edge = await startEdge('edge-1', {
    natsUrl: log.server.url,
    environment: {
      BATON_AUTH: 'jwt',
      BATON_JWT_KEY_FILE: join(folder, 'public.pem'),
      BATON_JWT_ISSUERS: `${ISSUER},https://second.example`,
      BATON_JWT_AUDIENCE: AUDIENCE,
      BATON_LOG_LEVEL: 'debug',
    },
  })
})
afterAll(async () => {
  await edge[Symbol.asyncDispose]()
  await log[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

const RS256 = { alg: 'RS256' }
const sign = (claims: Claims = {}, key: unknown = privateKey, header: { alg: string } = RS256): Promise<string> =>
  signToken({ aud: AUDIENCE, baton: GRANTS, ...claims }, key as CryptoKey, header)
const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url')
const payload = { iss: ISSUER, sub: 'mallory', aud: AUDIENCE, exp: now + 600, baton: GRANTS }
const tampered = async (): Promise<string> => {
  const [head, , signature] = (await sign()).split('.')
  return [head, encode({ ...payload, baton: { subscribe: ['run:*', 'topic:>'] } }), signature].join('.')
}
/** A token that brings the key it is to be checked with. */
async function selfMade(): Promise<string> {
  const pair = await generateKeyPair('RS256')
  const jwk = await exportJWK(pair.publicKey)
  return sign({}, pair.privateKey, { alg: 'RS256', jwk, kid: 'mine', jku: 'http://127.0.0.1:9/jwks' } as {
    alg: string
  })
}

type Sent = { path?: string; headers: Record<string, string>; init?: RequestInit }
const shown: string[] = []
const asBearer = (token: string, path = '/topics/orders.1'): Sent => {
  shown.push(token)
  return { path, headers: { authorization: `Bearer ${token}` } }
}

const refused: readonly [string, number, () => Promise<Sent>][] = [
  ['alg: none', 401, async () => asBearer(`${encode({ alg: 'none' })}.${encode(payload)}.`)],
  ['alg: nOnE', 401, async () => asBearer(`${encode({ alg: 'nOnE', typ: 'JWT' })}.${encode(payload)}.`)],
  ['the public key taken for a secret', 401, async () => asBearer(await sign({}, Buffer.from(PEM), { alg: 'HS256' }))],
  ['another algorithm of the same key', 401, async () => asBearer(await sign({}, privateKey, { alg: 'PS256' }))],
  ['expired', 401, async () => asBearer(await sign({ exp: now - 60 }))],
  ['without an end', 401, async () => asBearer(await withPayload({ ...payload, exp: undefined }))],
  ['an end that is no number', 401, async () => asBearer(await withPayload({ ...payload, exp: 'tomorrow' }))],
  ['not yet valid', 401, async () => asBearer(await sign({ nbf: now + 60 }))],
  ['another audience', 401, async () => asBearer(await sign({ aud: 'other.example' }))],
  ['no audience', 401, async () => asBearer(await withPayload({ ...payload, aud: undefined }))],
  ['another issuer', 401, async () => asBearer(await sign({ iss: 'https://evil.example' }))],
  ['nobody’s', 401, async () => asBearer(await withPayload({ ...payload, sub: undefined }))],
  ['an empty subject', 401, async () => asBearer(await sign({ sub: '' }))],
  ['an unknown key', 401, async () => asBearer(await sign({}, (await generateKeyPair('RS256')).privateKey))],
  ['a key it brings itself', 401, async () => asBearer(await selfMade())],
  ['claims changed after signing', 401, async () => asBearer(await tampered())],
  ['malformed grants', 401, async () => asBearer(await sign({ baton: { subscribe: ['run:*', 'everything'] } }))],
  ['not a token', 401, async () => asBearer('a-token-that-is-none-at-all-but-long-enough')],
  ['three dots and nothing', 401, async () => asBearer('...')],
  ['payload of no JSON', 401, async () => asBearer(await signed('this is not a set of claims at all'))],
  ['a grant to another topic', 403, async () => asBearer(await sign(), '/topics/labels.1')],
  ['a grant to another run', 403, async () => asBearer(await sign(), '/runs/theirs/events')],
  ['a wildcard wider than the grant', 403, async () => asBearer(await sign(), '/topics/events?topic=orders.%3E')],
  ['a wildcard for one that was granted', 403, async () => asBearer(await sign(), '/topics/events?topic=*.1')],
  [
    'cookie and header that disagree',
    401,
    async () => {
      const cookie = await sign({ sub: 'another' })
      shown.push(cookie)
      const sent = asBearer(await sign())
      return { ...sent, headers: { ...sent.headers, cookie: `baton=${cookie}` } }
    },
  ],
  ['20 kB of it', 431, async () => asBearer(await sign({ padding: 'x'.repeat(15_000) }))],
  ['12 kB of it, expired', 401, async () => asBearer(await sign({ exp: now - 60, padding: 'x'.repeat(9000) }))],
]

const signed = (text: string): Promise<string> =>
  new CompactSign(new TextEncoder().encode(text)).setProtectedHeader(RS256).sign(privateKey)
const withPayload = (claims: unknown): Promise<string> => signed(JSON.stringify(claims))

test('a good one gets in', async () => {
  const { path = '', headers } = asBearer(await sign())
  expect((await fetch(`${edge.url}${path}`, { headers })).status).toBe(200)
  const second = asBearer(await sign({ iss: 'https://second.example', aud: ['x', AUDIENCE], nbf: now - 1 }))
  expect((await fetch(`${edge.url}${path}`, second)).status).toBe(200)
})

describe('refused', () => {
  test.each(refused)('%s: %i', async (_, status, make) => {
    const { path = '', headers } = await make()
    const response = await fetch(`${edge.url}${path}`, { headers })
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    if (status === 401) expect(response.headers.get('www-authenticate')).toContain('error="invalid_token"')
    const answer = await response.text()
    for (const part of partsOf(headers)) expect(answer).not.toContain(part)
  })

  test('the same as a cookie, and to publish', async () => {
    const token = await sign({ exp: now - 60 })
    shown.push(token)
    for (const headers of [{ cookie: `baton=${token}`, origin: edge.url }, { authorization: `Bearer ${token}` }]) {
      const init = { method: 'POST', body: 'x', headers }
      expect((await fetch(`${edge.url}/topics/orders.9`, init)).status).toBe(401)
      expect((await fetch(`${edge.url}/topics`, init)).status).toBe(401)
      expect((await fetch(`${edge.url}/tickets`, init)).status).toBe(401)
    }
  })
})

test('no line of the log holds a token, a part of one, or a ticket', async () => {
  const authorization = `Bearer ${await sign()}`
  const made = await fetch(`${edge.url}/tickets`, { method: 'POST', headers: { authorization } })
  const { ticket } = (await made.json()) as { ticket: string }
  expect((await fetch(`${edge.url}/topics/events?topic=orders.1&ticket=${ticket}`)).status).toBe(200)
  expect((await fetch(`${edge.url}/topics/events?topic=labels.1&ticket=${ticket}`)).status).toBe(403)
  expect((await fetch(`${edge.url}/topics/events?topic=orders.1&ticket=${ticket}x`)).status).toBe(401)
  await edge.child.terminate()
  const output = edge.output
  // It would be no proof if the process had said nothing.
  expect(output).toContain('edge.ready')
  expect(output).toContain('edge.drained')
  expect(shown.length).toBeGreaterThan(25)
  for (const token of [...shown, authorization, ...ticket.split('.')]) {
    for (const part of token.split('.').filter((one) => one.length > 12)) expect(output).not.toContain(part)
  }
})

const partsOf = (headers: Record<string, string>): readonly string[] =>
  Object.values(headers).flatMap((value) => value.split(/[. ]/).filter((part) => part.length > 12))
