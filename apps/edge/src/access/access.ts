import type { Context } from 'hono'
import { ALL_GRANTS, allows, grantOfRun, NO_GRANTS, type Grants } from '@baton/core/grants'
import type { EdgeEnv } from '../app.ts'
import { Problem } from '../problem.ts'

/** Who asks, and what they may do. */
export type Access = {
  /** Whose limits and idempotency keys: the subject of a token at its issuer, else an address. Of bounded length. */
  readonly client: string
  readonly grants: Grants
  /** When it ends, unix ms; null = never. Streams opened by it end then. */
  readonly endsAtMs: number | null
  /** What tickets may be made of: a token without its signature. Null where there is none. */
  readonly token: string | null
}

/** Where nobody has to show anything. */
export const everybody = (address: string): Access => ({
  client: address,
  grants: ALL_GRANTS,
  endsAtMs: null,
  token: null,
})

/** For what is open to all even where tokens are asked for. */
export const nobody = (address: string): Access => ({ ...everybody(address), grants: NO_GRANTS })

/** Throws the 403 unless one grant of that right covers all that is wanted. */
export function requireGrant(c: Context<EdgeEnv>, right: keyof Grants, ...wanted: readonly string[]): void {
  const { grants } = c.get('access')
  const refused = wanted.find((one) => !allows(grants[right], one))
  if (refused === undefined) return
  throw new Problem(403, 'denied', `no grant to ${right} covers ${refused.slice(0, 200)}`)
}

/** Whoever may follow a run, or manage it, may see how it stands. */
export const mayLookAt = ({ subscribe, manage }: Grants, run: string): boolean =>
  allows(subscribe, grantOfRun(run)) || allows(manage, grantOfRun(run))

/** Throws the 403 unless the run may be looked at: the same whether there is such a run or not. */
export function requireLook(c: Context<EdgeEnv>, run: string): void {
  if (!mayLookAt(c.get('access').grants, run)) requireGrant(c, 'subscribe', grantOfRun(run))
}

/** The 401. `detail` is ours: nothing of a token stands in it. */
export function unauthorized(detail: string, shown = true): Problem {
  const challenge = shown ? 'Bearer realm="baton", error="invalid_token"' : 'Bearer realm="baton"'
  return new Problem(401, 'unauthorized', detail, { 'www-authenticate': challenge })
}

/** How long it still lasts, in ms; Infinity where it never ends. */
export const lastsMs = ({ endsAtMs }: Access): number => (endsAtMs === null ? Infinity : endsAtMs - Date.now())
