import type { Environment } from '@baton/service/config'

/** A variable as an app would use it. `value` null: it has none. */
export type EffectiveVariable = {
  readonly name: string
  readonly value: string | null
  readonly from: 'environment' | 'default'
}

type Table = Readonly<Record<string, { safeParse(value: unknown): { success: boolean; data?: unknown } }>>

/** Whose values are never shown. Paths of files with keys in them are no keys. */
const SECRET = /(SECRET|TOKEN|PASSWORD|_KEY)(_|$)(?!FILE)/

/** What the variables of a table come to, by name, with everything hidden that lets somebody in. */
export function effectiveConfig(environment: Environment, table: Table): EffectiveVariable[] {
  return Object.entries(table).map(([name, schema]) => {
    const given = environment[name] === '' ? undefined : environment[name]
    const parsed = schema.safeParse(given)
    // A value that cannot be used is complained about elsewhere; here it stands as it was given.
    const value = parsed.success ? textOf(parsed.data) : (given ?? null)
    const from = given === undefined ? 'default' : 'environment'
    return { name, value: value === null ? null : shown(name, value), from }
  })
}

function textOf(value: unknown): string | null {
  if (value === undefined) return null
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(textOf).join(',')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Of a webhook only the origin is shown: its path and query are often what lets one in. */
function shown(name: string, value: string): string {
  if (SECRET.test(name)) return '[hidden]'
  const plain = value.replaceAll(/(^|\/\/|,)([^@/,\s]*)@/g, '$1[hidden]@')
  if (!/WEBHOOK/.test(name) || !URL.canParse(plain)) return plain
  const { origin, pathname, search } = new URL(value)
  return `${origin}${pathname === '/' && search === '' ? '' : '/[hidden]'}`
}
