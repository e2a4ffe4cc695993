import { generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { possible, readKeyFile, usual } from './keys.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-keys-'))
afterAll(() => rmSync(folder, { recursive: true }))

function fileWith(content: string | Buffer) {
  const path = join(folder, 'key')
  writeFileSync(path, content)
  return readKeyFile(path)
}
const pem = (key: KeyObject) => key.export({ format: 'pem', type: 'spki' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ec = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
const ed = generateKeyPairSync('ed25519')

describe('a public key in PEM', () => {
  test.each([
    ['rsa', rsa.publicKey, ['RS256']],
    ['P-256', ec.publicKey, ['ES256']],
    ['Ed25519', ed.publicKey, ['EdDSA', 'Ed25519']],
    ['P-384', generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey, ['ES384']],
  ])('%s is taken for what it is, with its own algorithms', (_, key, algorithms) => {
    for (const text of [pem(key), `\n\n  ${pem(key)}`, `# comment\n${pem(key)}`]) {
      const keys = fileWith(text)
      expect(keys.kind).toBe('public')
      expect(usual(keys)).toEqual(algorithms)
      expect(possible(keys).some((name) => name.startsWith('HS'))).toBe(false)
    }
  })

  test('in no other wrapping is it a secret', () => {
    for (const key of [rsa.publicKey, ec.publicKey, ed.publicKey]) {
      const der = key.export({ format: 'der', type: 'spki' })
      const jwk = JSON.stringify(key.export({ format: 'jwk' }))
      const bare = pem(key).replaceAll(/-----[^-]+-----/g, '')
      for (const content of [der, der.toString('base64'), bare, jwk, `{"keys":[${jwk}]}`]) {
        expect(() => fileWith(content)).toThrow('not in PEM')
      }
    }
    expect(() => fileWith(`ssh-rsa ${'A'.repeat(100)} me@host`)).toThrow('not in PEM')
    expect(() => fileWith(pem(rsa.publicKey).replace('MII', 'xxx'))).toThrow('no public key')
  })

  test.each([
    ['a private key', rsa.privateKey.export({ format: 'pem', type: 'pkcs8' }), 'private key'],
    ['an EC private key', ec.privateKey.export({ format: 'pem', type: 'sec1' }), 'private key'],
    ['a short RSA key', pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey), '2048 bits'],
    ['a key that signs nothing', pem(generateKeyPairSync('x25519').publicKey), 'signs no tokens'],
    ['a curve nobody knows', pem(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey), 'signs no tokens'],
  ])('%s is refused', (_, content, complaint) => expect(() => fileWith(content)).toThrow(complaint))
})

describe('a secret', () => {
  test('is the text without its line end, or the bytes as they are', () => {
    const text = 'a'.repeat(32)
    for (const content of [text, `${text}\n`, `${text}\r\n`]) {
      expect(fileWith(content)).toEqual({ kind: 'secret', secret: Buffer.from(text) })
    }
    const bytes = Buffer.concat([Buffer.from([0, 255]), randomBytes(40), Buffer.from('\n')])
    expect(fileWith(bytes)).toEqual({ kind: 'secret', secret: bytes })
  })

  test('has at least as many bytes as the hash', () => {
    expect(() => fileWith('a'.repeat(31))).toThrow('at least 32 bytes')
    expect(() => fileWith(`${'a'.repeat(31)}\n`)).toThrow('at least 32 bytes')
    expect(usual(fileWith('a'.repeat(100)))).toEqual(['HS256'])
    expect(possible(fileWith('a'.repeat(48)))).toEqual(['HS256', 'HS384'])
  })
})
