import { z } from 'zod'
import { isJobName, isRunId } from './ids.ts'

/**
 * What is wanted of a run: the body of `POST /runs` and the value of a key in KV `runs`.
 * Unknown fields are refused: a misspelt `lables` is a mistake somebody wants to hear about.
 */
const ms = z.int().min(1).max(2_592_000_000)
const hasCredentials = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && (url.username !== '' || url.password !== '')
}
const httpUrl = z
  .string()
  .max(2048)
  .refine((text) => /^https?:\/\//i.test(text) && URL.canParse(text), 'must be an http or https URL')
  .refine((text) => !hasCredentials(text), 'must hold no user or password: use secret')
const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/, 'must be a header name')
const headerValue = z
  .string()
  .max(4096)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'must be a header value in Latin-1')

/** What a credential is usually sent in. Its value would stand in KV for everyone who may read it. */
const secretHeader = /^(authorization|proxy-authorization|cookie|.*api[-_]?key|.*-token|.*secret.*)$/i

const headers = z.record(headerName, headerValue).superRefine((map, context) => {
  for (const name of Object.keys(map)) {
    if (secretHeader.test(name)) {
      context.addIssue({
        code: 'custom',
        path: [name],
        message: `use secret for ${name}: headers are stored in clear`,
      })
    }
  }
})

const jobFields = {
  job: z.string().refine(isJobName, 'must match [A-Za-z0-9_-]{1,64}').optional(),
  url: httpUrl,
  resume: z.enum(['auto', 'last-event-id', 'replay', 'none']).optional(),
  headers: headers.optional(),
  /** The relay sends `Authorization: Bearer <BATON_SECRET_NAME>`, or the bare secret in `secretHeader`. */
  secret: z
    .string()
    .regex(/^[A-Z0-9_]{1,64}$/, 'must match [A-Z0-9_]{1,64}')
    .optional(),
  secretHeader: headerName.optional(),
  /** The agent's cancel URL: one POST when the run is cancelled. */
  cancel: httpUrl.optional(),
}

const runFields = {
  run: z.string().refine(isRunId, 'must match [A-Za-z0-9_-]{1,64} and not be "events"').optional(),
  progressTypes: z.array(z.string().min(1).max(256)).max(64).optional(),
  terminalTypes: z.array(z.string().min(1).max(256)).max(64).optional(),
  labels: z.record(z.string().regex(/^[A-Za-z0-9_./-]{1,64}$/), z.string().max(256)).optional(),
  quietMs: ms.optional(),
  stallMs: ms.optional(),
  orphanMs: ms.optional(),
}

const jobSchema = z.strictObject(jobFields)
export const manyJobsSchema = z.strictObject({ ...runFields, jobs: z.array(jobSchema).min(1).max(64) })
export const oneJobSchema = z.strictObject({ ...runFields, ...jobFields })
const wishSchema = z.strictObject({ run: runFields.run })

export type JobSpec = {
  readonly job: string
  readonly url: string
  readonly resume: 'auto' | 'last-event-id' | 'replay' | 'none'
  readonly headers: Readonly<Record<string, string>>
  readonly secret: string | null
  readonly secretHeader: string | null
  readonly cancel: string | null
}

/** A registration in its one normal form, whichever of the two it was written in. */
export type RunSpec = {
  readonly run: string
  readonly jobs: readonly JobSpec[]
  readonly progressTypes: readonly string[] | null
  readonly terminalTypes: readonly string[] | null
  readonly labels: Readonly<Record<string, string>>
  readonly quietMs: number | null
  readonly stallMs: number | null
  readonly orphanMs: number | null
  /** The wish to end it; KV only. */
  readonly cancel: boolean
}

export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string }

const complaints = (error: z.ZodError): string =>
  error.issues
    .map((issue) => (issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message))
    .join('; ')

const job = (fields: z.infer<typeof jobSchema>, at: number): JobSpec => ({
  job: fields.job ?? (at === 0 ? 'main' : `job-${at + 1}`),
  url: fields.url,
  resume: fields.resume ?? 'auto',
  headers: fields.headers ?? {},
  secret: fields.secret ?? null,
  secretHeader: fields.secretHeader ?? null,
  cancel: fields.cancel ?? null,
})

/** Checks a registration and brings it to its normal form under the id `run`. */
export function parseRegistration(run: string, body: unknown): Parsed<RunSpec> {
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body)
  if (!isObject && isRunId(run)) return { ok: false, reason: 'must be a JSON object' }
  return isObject && 'jobs' in body
    ? parseAs(manyJobsSchema, run, body, ({ jobs }) => jobs.map(job))
    : parseAs(oneJobSchema, run, body, (fields) => [job(fields, 0)])
}

type RunFields = Omit<z.infer<typeof manyJobsSchema>, 'jobs'>

function parseAs<T extends RunFields>(
  schema: z.ZodType<T>,
  run: string,
  body: unknown,
  jobsOf: (data: T) => JobSpec[],
): Parsed<RunSpec> {
  if (!isRunId(run)) return { ok: false, reason: 'run: must match [A-Za-z0-9_-]{1,64} and not be "events"' }
  const found = schema.safeParse(body)
  if (!found.success) return { ok: false, reason: complaints(found.error) }
  const { data } = found
  if (data.run !== undefined && data.run !== run) return { ok: false, reason: `run: is ${data.run}, expected ${run}` }
  const jobs = jobsOf(data)
  const names = new Set(jobs.map(({ job }) => job))
  if (names.size < jobs.length) return { ok: false, reason: 'jobs: two jobs have the same name' }
  return {
    ok: true,
    value: {
      run,
      jobs,
      progressTypes: data.progressTypes ?? null,
      terminalTypes: data.terminalTypes ?? null,
      labels: data.labels ?? {},
      quietMs: data.quietMs ?? null,
      stallMs: data.stallMs ?? null,
      orphanMs: data.orphanMs ?? null,
      cancel: false,
    },
  }
}

/**
 * Reads a value of KV `runs`. There a top-level `cancel: true` is the wish to cancel, and may stand alone; a text is the
 * agent's cancel URL.
 */
export function parseRunRecord(run: string, text: string): Parsed<RunSpec> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return { ok: false, reason: 'is not JSON' }
  }
  if (typeof body !== 'object' || body === null || typeof (body as { cancel?: unknown }).cancel !== 'boolean') {
    return parseRegistration(run, body)
  }
  const { cancel, ...rest } = body as { cancel: boolean }
  const isAlone = cancel && Object.keys(rest).every((field) => field === 'run')
  const found = isAlone ? parseAs(wishSchema, run, rest, () => []) : parseRegistration(run, rest)
  return found.ok ? { ok: true, value: { ...found.value, cancel } } : found
}

/** The text kept in KV for a registration: its normal form, without what is at its default. */
export function formatRunRecord(spec: RunSpec): string {
  const set = <T>(key: string, value: T | null, empty = false) => (value === null || empty ? {} : { [key]: value })
  return JSON.stringify({
    run: spec.run,
    jobs: spec.jobs.map((one) => ({
      job: one.job,
      url: one.url,
      ...set('resume', one.resume, one.resume === 'auto'),
      ...set('headers', one.headers, Object.keys(one.headers).length === 0),
      ...set('secret', one.secret),
      ...set('secretHeader', one.secretHeader),
      ...set('cancel', one.cancel),
    })),
    ...set('progressTypes', spec.progressTypes),
    ...set('terminalTypes', spec.terminalTypes),
    ...set('labels', spec.labels, Object.keys(spec.labels).length === 0),
    ...set('quietMs', spec.quietMs),
    ...set('stallMs', spec.stallMs),
    ...set('orphanMs', spec.orphanMs),
    ...set('cancel', spec.cancel, !spec.cancel),
  })
}

/** Do two registrations ask for the same? A wish to cancel is not part of the question. */
export function sameRegistration(one: RunSpec, other: RunSpec): boolean {
  const sorted = (value: unknown): unknown =>
    typeof value !== 'object' || value === null || Array.isArray(value)
      ? Array.isArray(value)
        ? value.map(sorted)
        : value
      : Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, inner]) => [key, sorted(inner)]),
        )
  const text = (spec: RunSpec): string => JSON.stringify(sorted({ ...spec, cancel: false }))
  return text(one) === text(other)
}
