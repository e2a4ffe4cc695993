import { possible, readKeyFile, usual, type AuthConfig, type Keys } from './keys.ts'

export type AuthValues = {
  readonly BATON_JWT_ALGS: readonly string[]
  readonly BATON_JWKS_URL?: string | undefined
  readonly BATON_JWT_KEY_FILE?: string | undefined
  readonly BATON_JWT_ISSUERS: readonly string[]
  readonly BATON_JWT_AUDIENCE?: string | undefined
  readonly BATON_CORS_ORIGINS: readonly string[]
}

/** What `BATON_AUTH=jwt` stands on, or all that is wrong with it. Reads the key file. */
export function readAuth(values: AuthValues): { auth: AuthConfig | null; complaints: readonly string[] } {
  const complaints: string[] = []
  const keys = readKeys(values, complaints)
  const { BATON_JWT_ISSUERS: issuers, BATON_JWT_ALGS: asked } = values
  if (issuers.length === 0) {
    complaints.push(
      'BATON_JWT_ISSUERS: must name whose tokens are taken; nobody’s would be checked for where it is from',
    )
  }
  if (values.BATON_CORS_ORIGINS.includes('*')) {
    complaints.push('BATON_CORS_ORIGINS: * would let every page read what a cookie opens; name the origins')
  }
  if (keys === null) return { auth: null, complaints }
  const fitting = possible(keys)
  const wrong = asked.filter((name) => !fitting.includes(name))
  if (wrong.length > 0) {
    complaints.push(`BATON_JWT_ALGS: ${wrong.join(', ')} cannot be had of these keys, but ${fitting.join(', ')}`)
  }
  const algorithms = asked.length === 0 ? usual(keys) : asked
  return { auth: { keys, algorithms, issuers, audience: values.BATON_JWT_AUDIENCE ?? null }, complaints }
}

function readKeys(values: AuthValues, complaints: string[]): Keys | null {
  const { BATON_JWKS_URL: url, BATON_JWT_KEY_FILE: file } = values
  if ((url === undefined) === (file === undefined)) {
    complaints.push('BATON_AUTH: jwt needs keys: either BATON_JWKS_URL or BATON_JWT_KEY_FILE')
    return null
  }
  if (url !== undefined) {
    const { protocol, username, password } = new URL(url)
    const isHttp = /^https?:$/.test(protocol)
    if (isHttp && username === '' && password === '') return { kind: 'jwks', url }
    complaints.push(`BATON_JWKS_URL: ${isHttp ? 'must hold no user or password' : 'must be an http or https URL'}`)
    return null
  }
  try {
    return readKeyFile(file ?? '')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    complaints.push(`BATON_JWT_KEY_FILE: ${file} ${code === undefined ? message : `cannot be read (${code})`}`)
    return null
  }
}
