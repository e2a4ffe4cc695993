import { readFileSync, statSync } from 'node:fs'

/** Two parts between lines of dashes, a JWT and a seed: what the NATS client takes out of such a file. */
const PART = /-{3,}[^\n]*-{3,}\n.+\n\s*-{3,}[^\n]*-{3,}\n/g

/** Why a file cannot serve as NATS credentials, as far as can be seen without a server; null where nothing is wrong. */
export function credentialsComplaint(path: string): string | null {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return `no such file: ${path}`
  try {
    const parts = readFileSync(path, 'utf8').match(PART) ?? []
    return parts.length >= 2 ? null : `no NATS credentials in it: ${path}`
  } catch (error) {
    return `cannot be read: ${path}: ${error instanceof Error ? error.message : String(error)}`
  }
}
