import type { Command } from 'commander'
import { isRunId } from '@baton/core/ids'
import { runState } from '@baton/core/run-state'
import { readKeyAtLeader } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { readHeartbeat } from '@baton/store/heartbeats'
import { BUCKET } from '@baton/store/names'
import { readExtent } from '@baton/store/read-log'
import { readRegistration, readStatus } from '@baton/store/registry'
import { fields, type Print } from '../print.ts'
import { endText, labelsText, noSuchRun } from '../run-texts.ts'
import type { Tools } from '../surroundings.ts'

/** `baton runs show`: everything that is known of one run. */
export function runsShowCommand(runs: Command, { inStore, print }: Tools): void {
  runs
    .command('show')
    .description('show all that is known of a run')
    .argument('<run>', 'its id')
    .action((run: string) => inStore((nats) => showRun(nats, run, print())))
}

async function showRun(nats: Nats, run: string, print: Print): Promise<void> {
  if (!isRunId(run)) throw noSuchRun(run)
  const [registration, status] = await Promise.all([readRegistration(nats, run), readStatus(nats, run)])
  // A key that was deleted cancels its run; what it was is still to be seen.
  if (registration === null && status === null) throw noSuchRun(run)
  const [claimEntry, extent, liveness, progress] = await Promise.all([
    readKeyAtLeader(nats, BUCKET.claims, run),
    readExtent(nats, run, 'leader'),
    readHeartbeat(nats, 'liveness', run),
    readHeartbeat(nats, 'progress', run),
  ])
  const spec = registration?.spec ?? { ok: false as const, reason: 'its key was deleted' }
  const claim = readClaim(claimEntry)
  const place = (event: { sequence: number; index: number } | null) =>
    event === null ? null : { sequence: event.sequence, index: event.index }
  const shown = {
    run,
    state: runState(spec, status, claim),
    reason: spec.ok ? null : spec.reason,
    end: status?.end ?? null,
    owner: claim,
    first: place(extent.first),
    head: place(extent.head),
    liveness: liveness?.at ?? null,
    progress: progress?.at ?? null,
    jobs: status?.jobs ?? [],
    registration: spec.ok ? spec.value : null,
  }
  const at = (event: typeof shown.first) =>
    event === null ? 'none' : `index ${event.index}, sequence ${event.sequence}`
  const text = fields({
    run,
    state: shown.state,
    reason: shown.reason,
    end: endText(shown.end),
    owner: claim === null ? 'nobody' : `${claim.relay}, boot ${claim.boot}, epoch ${claim.epoch ?? '?'}`,
    'oldest kept': at(shown.first),
    newest: at(shown.head),
    'last byte': shown.liveness,
    'last progress': shown.progress,
    labels: spec.ok && labelsText(spec.value.labels) !== '' ? labelsText(spec.value.labels) : null,
    ...Object.fromEntries(
      (spec.ok ? spec.value.jobs : []).map((job) => [`job ${job.job}`, `${job.resume} ${job.url}`]),
    ),
    ...Object.fromEntries(
      shown.jobs.map((job) => [`${job.job} is`, `${job.state}${job.reason === null ? '' : `: ${job.reason}`}`]),
    ),
  })
  print.result(shown, text)
}
