import { unauthorized } from './access.ts'

/** What a request shows of who sends it. */
export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'token'; readonly token: string; readonly from: 'header' | 'cookie' }
  | { readonly kind: 'ticket'; readonly ticket: string }

/** Every value of every header: `headers` of Node keeps one Authorization and drops the others. */
type DistinctHeaders = Readonly<Record<string, readonly string[] | undefined>>

const COOKIE = 'baton'

/**
 * Takes the token from `Authorization: Bearer` or the cookie `baton`, or a ticket from `?ticket=`. Two of them that do
 * not say the same are refused, whichever is right: somebody between us and the client may look at the other one. Only a
 * cookie beside a ticket is passed by, for a browser sends it unasked. Throws the 401.
 */
export function readCredential(headers: DistinctHeaders, tickets: readonly string[]): Credential {
  const bearer = only((headers['authorization'] ?? []).map(readBearer), 'Authorization headers')
  const cookie = only((headers['cookie'] ?? []).flatMap(readCookies), 'cookies named baton')
  const ticket = only(tickets, 'tickets')
  if (ticket !== null) {
    if (bearer !== null) throw unauthorized('a token and a ticket: give one of them')
    return { kind: 'ticket', ticket }
  }
  if (bearer !== null && cookie !== null && bearer !== cookie) {
    throw unauthorized('the cookie and the Authorization header disagree')
  }
  const token = bearer ?? cookie
  return token === null ? { kind: 'none' } : { kind: 'token', token, from: bearer === null ? 'cookie' : 'header' }
}

function only(values: readonly string[], what: string): string | null {
  const [first = null, ...others] = new Set(values)
  if (others.length > 0) throw unauthorized(`several ${what} disagree`)
  return first
}

function readBearer(value: string): string {
  const [, token] = /^bearer +([^\s,]+)$/i.exec(value.trim()) ?? []
  if (token === undefined) throw unauthorized('the Authorization header must be: Bearer <token>')
  return token
}

/** The values of our cookie; an empty one is a cookie that was taken back. */
const readCookies = (header: string): readonly string[] =>
  header.split(';').flatMap((pair) => {
    const [name, ...rest] = pair.split('=')
    const value = rest.join('=').trim()
    return name?.trim() === COOKIE && value !== '' ? [value] : []
  })
