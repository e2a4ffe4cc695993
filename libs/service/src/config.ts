import leven from 'leven'
import { z } from 'zod'

/** Every complaint about the environment at once, a line each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly complaints: readonly string[]

  constructor(complaints: readonly string[]) {
    super(`The configuration cannot be used:\n${complaints.map((one) => `  ${one}`).join('\n')}`)
    this.complaints = complaints
  }
}

const PREFIX = 'BATON_'

export type Environment = Readonly<Record<string, string | undefined>>

/** A whole number of milliseconds, bytes or things, within bounds. */
export const whole = (fallback: number, min = 0, max = Number.MAX_SAFE_INTEGER) =>
  z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .default(fallback)

export const list = z
  .string()
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  )
  .default([])

/**
 * Checks the `BATON_*` part of an environment against a table of variables (name → schema) and returns the values
 * by variable name. A `BATON_*` name that is in no table of any app is refused: a misspelt limit is a limit not in
 * force. `others` are the names other apps know: they may stand in a shared environment.
 * `relations` adds complaints about values that are each fine but do not fit together.
 */
export function readConfig<T extends z.ZodRawShape>(
  environment: Environment,
  table: T,
  options: {
    others?: ReadonlySet<string>
    patterns?: readonly RegExp[]
    relations?: (values: z.infer<z.ZodObject<T>>) => readonly string[]
  } = {},
): z.infer<z.ZodObject<T>> {
  const { others = new Set(), patterns = [], relations = () => [] } = options
  // An empty variable is an unset one: compose files and shells write `NAME=` for "not set".
  const given = Object.fromEntries(
    Object.entries(environment).filter(
      ([name, value]) => name.startsWith(PREFIX) && value !== undefined && value !== '',
    ),
  )
  const unknown = Object.keys(given)
    .filter((name) => !(name in table) && !others.has(name) && !patterns.some((pattern) => pattern.test(name)))
    .map((name) => `${name}: no such variable${hint(name, [...Object.keys(table), ...others])}`)
  const known = Object.fromEntries(Object.entries(given).filter(([name]) => name in table))
  const found = z.object(table).safeParse(known)
  const issues = found.success ? [] : found.error.issues
  const bad = new Set(issues.map(({ path }) => String(path[0])))
  // What does not fit together is told along with what is wrong by itself, unless that has a part in it.
  const fine = found.success
    ? found
    : z.object(table).safeParse(Object.fromEntries(Object.entries(known).filter(([name]) => !bad.has(name))))
  const apart = fine.success ? relations(fine.data).filter((one) => ![...bad].some((name) => one.includes(name))) : []
  const wrong = [...issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`), ...apart]
  const complaints = [...unknown, ...wrong]
  if (!found.success || complaints.length > 0) throw new ConfigError(complaints)
  return found.data
}

/** More than three letters or half of it: that is another word, not a slip. */
const MOST_LETTERS = 3
const MOST_OF_IT = 0.5

/** The known name that was probably meant; empty where none is near. What all names begin with says nothing. */
function hint(name: string, known: readonly string[]): string {
  const written = name.slice(PREFIX.length)
  const [nearest] = known
    .map((one) => {
      const meant = one.slice(PREFIX.length)
      const letters = leven(written, meant)
      return { one, letters, share: letters / Math.max(written.length, meant.length) }
    })
    .filter(({ letters, share }) => letters <= MOST_LETTERS && share <= MOST_OF_IT)
    .sort((a, b) => a.letters - b.letters)
  return nearest === undefined ? '' : `; did you mean ${nearest.one}?`
}
