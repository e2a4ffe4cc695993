import { z } from '@hono/zod-openapi'
import { VERDICTS } from '@baton/core/judge'
import { manyJobsSchema, oneJobSchema } from '@baton/core/run'
import { RUN_STATES } from '@baton/core/run-state'

/** What goes in and out over HTTP. The same schemas check requests and make `/openapi.json`. */

const place = z.object({ sequence: z.int(), index: z.int() }).nullable()
const age = z.number().nullable()

export const runViewSchema = z
  .object({
    run: z.string(),
    state: z.enum(RUN_STATES),
    reason: z.string().optional().openapi({ description: 'Why the registration is invalid.' }),
    end: z
      .object({ reason: z.enum(['completed', 'failed', 'cancelled', 'orphaned']), detail: z.string().nullable() })
      .nullable(),
    owner: z
      .object({ relay: z.string(), boot: z.string(), epoch: z.int().nullable() })
      .nullable()
      .openapi({ description: 'The relay that tails it; epoch is null until the first renewal of its claim.' }),
    position: z.string().openapi({ description: 'The id to follow from here.' }),
    first: place.openapi({ description: 'The oldest event kept.' }),
    head: place.openapi({ description: 'The newest event.' }),
    livenessAgeMs: age.openapi({ description: 'Since the agent last sent any byte.' }),
    progressAgeMs: age.openapi({ description: 'Since the agent last got somewhere.' }),
    health: z
      .enum(VERDICTS)
      .nullable()
      .openapi({
        description:
          'How it fares, by its heartbeats. Null where that cannot be said: its registration is invalid, nobody has begun ' +
          'it, or this edge has not looked for long enough and no watchdog has told.',
      }),
    jobs: z.array(
      z.object({
        job: z.string(),
        state: z.enum(['waiting', 'connecting', 'connected', 'failing', 'completed', 'failed', 'cancelled']),
        upstreamId: z.string().nullable(),
        ordinal: z.int(),
        reason: z.string().nullable(),
      }),
    ),
    subscribers: z.int().openapi({ description: 'Streams of this run open at this edge, those of sets among them.' }),
    labels: z.record(z.string(), z.string()),
  })
  .openapi('Run')

export type RunView = z.infer<typeof runViewSchema>

export const registrationSchema = z.union([manyJobsSchema, oneJobSchema]).openapi('Registration')

export const runListSchema = z.object({ runs: z.array(runViewSchema), next: z.string().nullable() }).openapi('RunList')

const envelopeSchema = z
  .object({
    run: z.string(),
    job: z.string().nullable(),
    index: z.int(),
    sequence: z.int(),
    type: z.string(),
    time: z.string(),
    id: z.string().nullable(),
    data: z.string(),
  })
  .openapi('Envelope')

export const historySchema = z
  .object({
    events: z.array(envelopeSchema),
    next: z.string().openapi({ description: 'The `after` of the next request.' }),
    head: place,
    ended: z.boolean().openapi({ description: 'The run is over and this answer reaches its end.' }),
    reset: z
      .object({
        reason: z.enum(['trimmed', 'recreated', 'unknown-id']),
        requested: z.string(),
        resumesAt: z.string(),
        missed: z.int().nullable(),
        state: z.string().nullable(),
      })
      .nullable(),
  })
  .openapi('History')

const sequenceOnly = z.object({ sequence: z.int() }).nullable()

export const topicViewSchema = z
  .object({
    topic: z.string(),
    position: z.string().openapi({ description: 'The id to follow from here.' }),
    first: sequenceOnly.openapi({ description: 'The oldest event kept.' }),
    last: sequenceOnly.openapi({ description: 'The newest event.' }),
    messages: z.int().openapi({ description: 'Events kept.' }),
  })
  .openapi('Topic')

/** One event to be published. */
export const publishSchema = z
  .strictObject({
    topic: z.string(),
    data: z.unknown().openapi({ description: 'Text as it is, any other JSON value as its JSON text.' }),
    type: z.string().min(1).max(256).optional().openapi({ description: 'Shown in the envelope; message by default.' }),
  })
  .refine((event) => event.data !== undefined, { path: ['data'], message: 'must be given' })
  .openapi('Publish')

const MAX_PUBLISHED = 1000

export const publishManySchema = z
  .array(publishSchema)
  .min(1)
  .max(MAX_PUBLISHED)
  .openapi({ description: 'Stored all or none.' })

export const publishedSchema = z
  .object({
    topic: z.string(),
    stream: z.string(),
    sequence: z.int(),
    position: z.string().openapi({ description: 'Who follows from here gets what comes after this event.' }),
    duplicate: z.boolean().openapi({ description: 'Stored before under the same key, at this sequence.' }),
  })
  .openapi('Published')

export const ticketSchema = z
  .object({
    ticket: z.string().openapi({ description: 'Given as ?ticket= to a route that streams, at any edge.' }),
    expiresAt: z.string().openapi({ description: 'It must have been opened by then, once.' }),
    endsAt: z.string().openapi({ description: 'Once opened it opens streams until then: the end of its token.' }),
  })
  .openapi('Ticket')

export const relaySchema = z
  .object({
    relay: z.string(),
    boot: z.string(),
    pid: z.int(),
    host: z.string(),
    runs: z.int(),
    loopLagMs: z.number(),
    draining: z.boolean(),
    beatAgeMs: z.number(),
  })
  .openapi('Relay')

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
  })
  .openapi('Problem')

/** How many at most: whoever asks for more than one page has gets one page, and reads on after it. */
export const limitQuery = (fallback: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number from 1')
    .transform((text) => Math.min(Number(text), most))
    .pipe(z.number().min(1, 'must be at least 1'))
    .optional()
    .transform((value) => value ?? fallback)
    .openapi({ type: 'integer', minimum: 1, default: fallback, description: `More than ${most} counts as ${most}.` })

/** A whole number in a query, within bounds. */
export const wholeQuery = (fallback: number, min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .optional()
    .transform((value) => value ?? fallback)
    .openapi({ type: 'integer', minimum: min, maximum: max, default: fallback })

export const runParams = z.object({ run: z.string().openapi({ param: { name: 'run', in: 'path' }, example: 'r1' }) })

export const topicParams = z.object({
  topic: z.string().openapi({ param: { name: 'topic', in: 'path' }, example: 'orders.42' }),
})

const lastEventId = z.string().optional().openapi({ description: 'As the Last-Event-ID header, which comes first.' })

/** What may be given several times; once, it comes as itself. */
const several = z.union([z.string(), z.array(z.string())]).optional()

const timedFrom = z
  .string()
  .optional()
  .openapi({ description: 'now (default), start, a sequence (itself included), -<count>, or a time (RFC 3339).' })

export const topicStreamQuery = z.object({
  topic: several.openapi({ description: 'A topic or a NATS filter; may be given several times.' }),
  lastEventId,
  from: timedFrom,
  format: z.enum(['plain', 'envelope']).optional(),
})

export const runsStreamQuery = z.object({
  run: several.openapi({ description: 'A run; given several times, up to 100.' }),
  lastEventId,
  from: timedFrom,
  types: z.string().optional().openapi({ description: 'Only these types, comma-separated; Baton’s own always come.' }),
})

export const streamQuery = z.object({
  status: z
    .enum(['0', '1'])
    .optional()
    .openapi({
      description:
        '1: also `stream.status`, without an id: after `stream.open`, when owner, epoch or health change, and with every ' +
        'heartbeat. Its data is {owner, epoch, head, livenessAgeMs, progressAgeMs, health}.',
    }),
  lastEventId,
  from: z
    .string()
    .optional()
    .openapi({ description: 'start (default), now, an index (itself included), or -<count>: the last so many.' }),
  types: z.string().optional().openapi({ description: 'Only these types, comma-separated; Baton’s own always come.' }),
  format: z.enum(['plain', 'envelope']).optional(),
})
