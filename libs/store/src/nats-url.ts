/** A server as it is written: with or without a scheme, a user and a password in front of the host. */
const WRITTEN = /^([a-z][a-z0-9+.-]*:\/\/)?(?:(.*)@)?(.*)$/i

type Written = { readonly scheme: string; readonly credentials: string | null; readonly host: string }

function read(server: string): Written {
  // What stands before the last @ is no host: a password may have one in it that nobody has escaped.
  const [, scheme = '', credentials, host = ''] = WRITTEN.exec(server) ?? []
  return { scheme, credentials: credentials ?? null, host }
}

/** The server without its user and password. */
export function addressOf(server: string): string {
  const { scheme, host } = read(server)
  return `${scheme}${host}`
}

/** The user and password in front of the host; null where there are none. */
export function credentialsOf(server: string): { readonly user: string; readonly pass: string } | null {
  const { credentials } = read(server)
  if (credentials === null || credentials === '') return null
  const colon = credentials.indexOf(':')
  const [user, pass] = colon === -1 ? [credentials, ''] : [credentials.slice(0, colon), credentials.slice(colon + 1)]
  return { user: unescaped(user), pass: unescaped(pass) }
}

/** A list of servers as a terminal, a log or a recording may have it: a password becomes `…`. */
export const shownServers = (servers: string): string => servers.split(',').map(shown).join(',')

function shown(server: string): string {
  const { scheme, credentials, host } = read(server)
  if (credentials === null) return server
  const colon = credentials.indexOf(':')
  // A user without a password may be a token.
  return `${scheme}${colon === -1 ? '' : `${credentials.slice(0, colon)}:`}…@${host}`
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
