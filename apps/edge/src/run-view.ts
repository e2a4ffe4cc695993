import { advance, cursorOf, cursorsByTail, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import { BatonError } from '@baton/core/errors'
import { DEFAULT_TERMINAL_TYPES, END, readEnd, type RunEnd } from '@baton/core/event'
import type { Checkpoint, Claim, RunStatus } from '@baton/core/records'
import type { Parsed, RunSpec } from '@baton/core/run'
import { jobAtEnd, runState, type RunState } from '@baton/core/run-state'
import { formatPosition } from '@baton/core/position'
import type { Place } from '@baton/core/servable'
import { runOrder } from '@baton/core/splice'
import type { Slots } from '@baton/service/slots'
import { readKey, readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { readCursors } from '@baton/store/read-cursors'
import { readExtent, type Extent } from '@baton/store/read-log'
import { readRegistration, readStatus } from '@baton/store/registry'
import type { RunHealth } from './run-judge.ts'
import type { RunView } from './schemas.ts'
import { within } from './within.ts'

/** Where a job stands is not worth a longer wait, nor the reading of very large events. */
const READ_MS = 1000

/** What the buckets say of a run. */
export type Known = {
  readonly run: string
  /** Null where nobody wants it any more, or ever did. */
  readonly registration: Parsed<RunSpec> | null
  readonly status: RunStatus | null
  readonly claim: Claim | null
}

export const stateOf = ({ registration, status, claim }: Known): RunState => runState(registration, status, claim)

/** What the buckets say of one run now. That there is nothing is the leaders' word. */
export async function readKnown(nats: Nats, run: string): Promise<Known> {
  const [registration, status, claim] = await Promise.all([
    readRegistration(nats, run),
    readStatus(nats, run),
    readKey(nats, BUCKET.claims, run).then((entry) =>
      entry.value === null ? readKeyAtLeader(nats, BUCKET.claims, run) : entry,
    ),
  ])
  return { run, registration: registration?.spec ?? null, status, claim: readClaim(claim) }
}

/**
 * A run as `GET /runs/:run` shows it; null for one that nobody has ever heard of. With `readings` the log is read where only
 * that tells where each job stands; without, those that did not speak last may be shown up to a checkpoint ago.
 */
export async function viewRun(
  nats: Nats,
  known: Known,
  fares: RunHealth,
  subscribers: number,
  readings: Slots | null = null,
): Promise<RunView | null> {
  const { run, registration, status } = known
  const extent = await readExtent(nats, run, 'any')
  const { first, head, checkpoint } = extent
  if (registration === null && status === null && head === null && checkpoint === null) return null
  const logEnd = head?.type === END ? readEnd(head.data) : null
  const end = logEnd === null ? (status?.end ?? null) : { reason: logEnd.reason, detail: logEnd.detail ?? null }
  const state = logEnd === null ? stateOf(known) : 'ended'
  return {
    run,
    state,
    ...(registration?.ok === false ? { reason: registration.reason } : {}),
    end,
    owner: state === 'ended' ? null : ownerOf(known),
    position: formatPosition(runOrder.position(head ?? checkpoint ?? { sequence: 0, index: 0 })),
    first: placeOf(first),
    head: placeOf(head),
    ...fares,
    // The log is the first to know.
    health: state === 'ended' ? 'ended' : fares.health,
    jobs: jobsOf(known, await cursorsAt(nats, known, extent, readings), logEnd),
    subscribers,
    labels: registration?.ok === true ? { ...registration.value.labels } : {},
  }
}

export const placeOf = (event: Place | null): { sequence: number; index: number } | null =>
  event === null ? null : { sequence: event.sequence, index: event.index }

export function ownerOf({ claim }: Known): RunView['owner'] {
  return claim === null ? null : { relay: claim.relay, boot: claim.boot, epoch: claim.epoch }
}

/** Where the emission of each job stands. */
async function cursorsAt(
  nats: Nats,
  { run: id, registration, status }: Known,
  { head, checkpoint }: Extent,
  readings: Slots | null,
): Promise<Checkpoint> {
  const base = checkpoint ?? EMPTY_CHECKPOINT
  if (head === null) return base
  const spec = registration?.ok === true ? registration.value : null
  const terminalTypes = spec?.terminalTypes ?? DEFAULT_TERMINAL_TYPES
  const run = { id, jobs: (spec ?? status)?.jobs.map(({ job }) => job) ?? [], terminalTypes }
  const told = cursorsByTail(base, head, run)
  if (told !== null) return told
  const quick = advance(base, head, terminalTypes)
  if (readings === null) return quick
  try {
    const tail = { last: head, checkpoint }
    return await within(
      READ_MS,
      readings.use(() => readCursors(nats, run, tail, AbortSignal.timeout(2 * READ_MS))),
    )
  } catch (error) {
    if (error instanceof BatonError) return quick
    throw error
  }
}

/** The jobs, with where each one's emission stands. */
function jobsOf({ registration, status }: Known, cursors: Checkpoint, logEnd: RunEnd | null): RunView['jobs'] {
  const spec = registration?.ok === true ? registration.value : null
  const names = new Set([
    ...(spec?.jobs.map(({ job }) => job) ?? []),
    ...(status?.jobs.map(({ job }) => job) ?? []),
    ...Object.keys(cursors.jobs),
  ])
  return [...names].map((job) => {
    const is = status?.jobs.find((one) => one.job === job)
    const { upstreamId, ordinal, ended } = cursorOf(cursors, job)
    const said = { state: is?.state ?? 'waiting', reason: is?.reason ?? null } as const
    const stands = logEnd === null ? said : jobAtEnd(said, ended, logEnd, { isOnly: names.size === 1 })
    return { job, state: stands.state, upstreamId, ordinal, reason: stands.reason }
  })
}
