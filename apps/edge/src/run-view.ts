import { advance, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import { DEFAULT_TERMINAL_TYPES, END, readEnd } from '@baton/core/event'
import type { Claim, RunStatus } from '@baton/core/records'
import type { Parsed, RunSpec } from '@baton/core/run'
import { runState, type RunState } from '@baton/core/run-state'
import { formatPosition } from '@baton/core/position'
import type { Place } from '@baton/core/servable'
import { runOrder } from '@baton/core/splice'
import { readKey, readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { readExtent, type Extent } from '@baton/store/read-log'
import { readRegistration, readStatus } from '@baton/store/registry'
import type { RunHealth } from './run-judge.ts'
import type { RunView } from './schemas.ts'

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

/** A run as `GET /runs/:run` shows it; null for one that nobody has ever heard of. */
export async function viewRun(
  nats: Nats,
  known: Known,
  fares: RunHealth,
  subscribers: number,
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
    jobs: jobsOf(known, extent),
    subscribers,
    labels: registration?.ok === true ? { ...registration.value.labels } : {},
  }
}

export const placeOf = (event: Place | null): { sequence: number; index: number } | null =>
  event === null ? null : { sequence: event.sequence, index: event.index }

export function ownerOf({ claim }: Known): RunView['owner'] {
  return claim === null ? null : { relay: claim.relay, boot: claim.boot, epoch: claim.epoch }
}

/** The jobs, with where each one's emission stands: the checkpoint, and what the newest event adds to it. */
function jobsOf({ registration, status }: Known, { head, checkpoint }: Extent): RunView['jobs'] {
  const spec = registration?.ok === true ? registration.value : null
  const base = checkpoint ?? EMPTY_CHECKPOINT
  const cursors = head === null ? base : advance(base, head, spec?.terminalTypes ?? DEFAULT_TERMINAL_TYPES)
  const names = new Set([
    ...(spec?.jobs.map(({ job }) => job) ?? []),
    ...(status?.jobs.map(({ job }) => job) ?? []),
    ...Object.keys(cursors.jobs),
  ])
  return [...names].map((job) => {
    const is = status?.jobs.find((one) => one.job === job)
    const cursor = cursors.jobs[job]
    return {
      job,
      state: is?.state ?? 'waiting',
      upstreamId: cursor?.upstreamId ?? null,
      ordinal: cursor?.ordinal ?? 0,
      reason: is?.reason ?? null,
    }
  })
}
