/**
 * Where a process of a test lives: the address it listens at, and what stands before its command line. A place may be a
 * network namespace of its own.
 */
export type Place = { readonly address: string; readonly prefix: readonly string[] }

export const LOOPBACK: Place = { address: '127.0.0.1', prefix: [] }

/** A command line as it is started at a place. */
export function commandAt(place: Place, command: string, args: readonly string[]): [string, readonly string[]] {
  const [first, ...rest] = [...place.prefix, command, ...args]
  return [first ?? command, rest]
}
