import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execute } from '../../apps/cli/setup/execute.js'
import { findBinary } from './find-binary.ts'

/** Paths of a certificate of 127.0.0.1 and of its key. */
export type Certificate = { readonly certificate: string; readonly key: string }

/** One that is signed by itself, for a day, made by openssl. Null where there is no openssl. */
export async function makeCertificate(): Promise<(Certificate & AsyncDisposable) | null> {
  const openssl = findBinary('openssl')
  if (openssl === null) return null
  const folder = await mkdtemp(join(tmpdir(), 'baton-tls-'))
  const [certificate, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1']
  const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
  const made = await execute(openssl, ['req', '-x509', ...kind, ...name, '-out', certificate, '-keyout', key])
  if (!made.ok) throw new Error(`openssl made no certificate:\n${made.output}`)
  return { certificate, key, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
}
