import { z } from 'zod'
import { isRunId, isTopicFilter } from './ids.ts'
import type { Parsed } from './run.ts'
import { covers, hasWildcard } from './topic-filter.ts'

/**
 * What the bearer of a token may do. A grant is `run:<id>`, `run:*` or `topic:<filter>`, with the wildcards of NATS: `*`
 * stands for one whole token, a last `>` for one or more. What no grant covers is refused.
 */
export type Grants = {
  /** Runs and topics it may follow and read. */
  readonly subscribe: readonly string[]
  /** Topics it may publish to. */
  readonly publish: readonly string[]
  /** Runs it may register, look at and cancel. */
  readonly manage: readonly string[]
}

export const NO_GRANTS: Grants = { subscribe: [], publish: [], manage: [] }
export const ALL_GRANTS: Grants = { subscribe: ['run:*', 'topic:>'], publish: ['topic:>'], manage: ['run:*'] }

export const grantOfRun = (run: string): string => `run:${run}`
export const grantOfTopic = (filter: string): string => `topic:${filter}`
/** Every run there is or may be. */
export const ALL_RUNS = 'run:*'

/** `run:a` → `run` and `a`; null where the kind or the pattern is none. */
function readGrant(text: string): { readonly kind: 'run' | 'topic'; readonly pattern: string } | null {
  const colon = text.indexOf(':')
  const [kind, pattern] = [text.slice(0, Math.max(0, colon)), text.slice(colon + 1)]
  if (kind === 'run') return pattern === '*' || pattern === '>' || isRunId(pattern) ? { kind, pattern } : null
  return kind === 'topic' && isTopicFilter(pattern) ? { kind, pattern } : null
}

/**
 * May everything that `wanted` stands for be had by these grants? One of them alone must cover it: a wildcard is never
 * narrowed to what is granted, and never put together from several grants.
 */
export function allows(grants: readonly string[], wanted: string): boolean {
  const asked = readGrant(wanted)
  if (asked === null) return false
  return grants.some((text) => {
    // A list of runs is looked through with every grant, so what has no wildcard is only compared.
    if (text === wanted) return true
    const grant = hasWildcard(text) ? readGrant(text) : null
    return grant !== null && grant.kind === asked.kind && covers(grant.pattern, asked.pattern)
  })
}

/** Of each right. Every request is compared with them, a publish with each for each event. */
const MAX_GRANTS = 250

const patterns = z
  .array(z.string().refine((text) => readGrant(text) !== null, 'must be run:<id>, run:* or topic:<filter>'))
  .max(MAX_GRANTS, `at most ${MAX_GRANTS} grants`)
  .default([])
const claim = z.object({ subscribe: patterns, publish: patterns, manage: patterns })

/**
 * Reads the claim `baton` of a token. One that is absent grants nothing; one bad grant makes the whole of it bad, for
 * nobody can know what was meant. Kinds of rights not known here are passed by: they could only have granted more.
 */
export function parseGrants(value: unknown): Parsed<Grants> {
  if (value === undefined) return { ok: true, value: NO_GRANTS }
  const found = claim.safeParse(value)
  if (found.success) return { ok: true, value: found.data }
  const places = found.error.issues.map(({ path, message }) => `${['baton', ...path].join('.')}: ${message}`)
  return { ok: false, reason: places.slice(0, 5).join('; ') }
}
