import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Issuer, ISSUER, signToken } from '../kit/issuer.ts'
import { eventually } from '../kit/eventually.ts'
import { LocalEdge } from '../kit/local-edge.ts'
import { LogServer } from '../kit/log-server.ts'
import { generateKeyPair } from 'jose'

/** Keys from an issuer's JWKS: they change, and the issuer may be away. */

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start()
})
afterAll(() => log[Symbol.asyncDispose]())

const baton = { subscribe: ['topic:a'] }
const startEdge = (issuer: Issuer): Promise<LocalEdge> =>
  LocalEdge.start(log.server.url, {
    auth: {
      keys: { kind: 'jwks', url: issuer.url },
      algorithms: ['RS256', 'ES256', 'EdDSA'],
      issuers: [ISSUER],
      audience: null,
    },
  })
const ask = (edge: LocalEdge, token: string, path = '/topics/a', headers: Record<string, string> = {}) =>
  fetch(`${edge.url}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })
const status = async (edge: LocalEdge, token: string): Promise<number> => (await ask(edge, token)).status

/** Signed with a key of the right kind that the issuer does not have. */
async function forge(kid: string): Promise<string> {
  const { privateKey } = await generateKeyPair('ES256')
  return signToken({ baton }, privateKey, { alg: 'ES256', kid })
}

test.each(['RS256', 'ES256', 'EdDSA'])('%s: tokens of an issuer are checked with its keys', async (alg) => {
  await using issuer = await Issuer.start(alg)
  await using edge = await startEdge(issuer)
  expect(await status(edge, await issuer.sign({ baton }))).toBe(200)
  expect(await status(edge, await forge('key-1'))).toBe(401)
  expect(await status(edge, await signToken({ baton }, Buffer.alloc(64), { alg: 'HS256', kid: 'key-1' }))).toBe(401)
})

test('a new key is taken without a restart; the old one as long as it is in the set', async () => {
  await using issuer = await Issuer.start()
  await using edge = await startEdge(issuer)
  const old = await issuer.sign({ baton })
  expect(await status(edge, old)).toBe(200)
  await issuer.addKey()
  const fresh = await issuer.sign({ baton })
  expect(await status(edge, fresh)).toBe(200)
  expect(await status(edge, old)).toBe(200)
  issuer.dropOldKeys()
  await issuer.addKey('EdDSA')
  expect(await status(edge, await issuer.sign({ baton }))).toBe(200)
  expect(await status(edge, old)).toBe(401)
  expect(await status(edge, fresh)).toBe(200)
})

test('ids that are made up cost the issuer few looks, and hide no new key from who has it', async () => {
  await using issuer = await Issuer.start()
  await using edge = await startEdge(issuer)
  expect(await status(edge, await issuer.sign({ baton }))).toBe(200)
  const before = issuer.looks
  const startedMs = performance.now()
  const forged = await Promise.all(Array.from({ length: 100 }, (_, at) => forge(`made-up-${at}`)))
  const answers = forged.map((token) => status(edge, token))
  await issuer.addKey()
  expect(await status(edge, await issuer.sign({ baton }))).toBe(200)
  expect(new Set(await Promise.all(answers))).toEqual(new Set([401]))
  // One that was looked for in vain is not looked for again at once.
  for (let again = 0; again < 20; again++) expect(await status(edge, forged[0] ?? '')).toBe(401)
  const tookMs = performance.now() - startedMs
  expect(issuer.looks - before).toBeLessThanOrEqual(2 + tookMs / 2000)
})

test('while the set is away known keys stay in use, and of an unknown one nobody says that it is wrong', async () => {
  await using issuer = await Issuer.start()
  await using edge = await startEdge(issuer)
  const known = await issuer.sign({ baton })
  expect(await status(edge, known)).toBe(200)
  await issuer.addKey()
  const unknown = await issuer.sign({ baton })
  await issuer.goAway()
  expect(await status(edge, known)).toBe(200)
  expect(await status(edge, unknown)).toBe(503)
  const stream = await ask(edge, unknown, '/topics/events?topic=a', { accept: 'text/event-stream' })
  expect(stream.status).toBe(200)
  expect(await stream.text()).toContain('"reason":"unavailable"')
  await issuer.comeBack()
  await eventually('the new key is taken', async () => (await status(edge, unknown)) === 200)
})

test('an edge that starts while the set is away serves as soon as it is there', async () => {
  const issuer = await Issuer.start()
  await issuer.goAway()
  await using edge = await startEdge(issuer)
  const token = await issuer.sign({ baton })
  expect(await status(edge, token)).toBe(503)
  expect((await fetch(`${edge.url}/readyz`)).status).toBe(200)
  await issuer.comeBack()
  await eventually('it is served', async () => (await status(edge, token)) === 200)
  await issuer[Symbol.asyncDispose]()
})

test('an issuer that sends without end is not listened to, and costs no memory', async () => {
  let sent = 0
  const server = createServer((_, response) => {
    response.on('error', () => undefined)
    const more = () => {
      while (!response.destroyed && sent < 64 * 2 ** 20 && response.write(' '.repeat(2 ** 16))) sent += 2 ** 16
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`
  try {
    await using edge = await LocalEdge.start(log.server.url, {
      auth: { keys: { kind: 'jwks', url }, algorithms: ['ES256'], issuers: [ISSUER], audience: null },
    })
    expect(await status(edge, await forge('key-1'))).toBe(503)
    expect(sent).toBeLessThan(16 * 2 ** 20)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})
