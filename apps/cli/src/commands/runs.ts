import { isRunId } from '@baton/core/ids'
import type { Claim, RunStatus } from '@baton/core/records'
import { parseRegistration, parseRunRecord, type Parsed, type RunSpec } from '@baton/core/run'
import { listKeys, readKeyAtLeader, type Entry } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { readHeartbeat } from '@baton/store/heartbeats'
import { BUCKET } from '@baton/store/names'
import { readExtent } from '@baton/store/read-log'
import { parseStatus, readRegistration, readStatus, register, requestCancel } from '@baton/store/registry'
import { CommandError } from '../exit.ts'
import { fields, table, type Print } from '../print.ts'

export type RunState = 'waiting' | 'running' | 'ended' | 'invalid'

type Row = {
  readonly run: string
  readonly state: RunState
  readonly reason: string | null
  readonly end: RunStatus['end']
  readonly owner: Pick<Claim, 'relay' | 'boot' | 'epoch'> | null
  readonly labels: Readonly<Record<string, string>>
}

export type ListFilter = { readonly state: RunState | null; readonly label: string | null }

/** Lists what is wanted with what is. */
export async function listRuns(nats: Nats, filter: ListFilter, print: Print, signal: AbortSignal): Promise<void> {
  const [wanted, status, claims] = await Promise.all(
    [BUCKET.runs, BUCKET.status, BUCKET.claims].map((bucket) => listKeys(nats, bucket, signal)),
  )
  const byKey = (entries: readonly Entry[] = []) => new Map(entries.map((entry) => [entry.key, entry]))
  const [statusOf, claimOf] = [byKey(status), byKey(claims)]
  const rows = (wanted ?? [])
    .map((entry) => rowOf(entry, parseStatus(statusOf.get(entry.key)), readClaim(claimOf.get(entry.key))))
    .filter((row) => filter.state === null || row.state === filter.state)
    .filter((row) => filter.label === null || hasLabel(row, filter.label))
    .sort((one, other) => one.run.localeCompare(other.run))
  const cells = rows.map((row) => [
    row.run,
    row.state,
    row.owner?.relay ?? '',
    String(row.owner?.epoch ?? ''),
    row.reason ?? endText(row.end) ?? labelsText(row.labels),
  ])
  print.result(rows, rows.length === 0 ? 'no runs' : table(['RUN', 'STATE', 'OWNER', 'EPOCH', ''], cells))
}

function rowOf(entry: Entry, status: RunStatus | null, claim: Claim | null): Row {
  const spec = parseRunRecord(entry.key, entry.value ?? '')
  const labels = spec.ok ? spec.value.labels : {}
  const owner = claim === null ? null : { relay: claim.relay, boot: claim.boot, epoch: claim.epoch }
  const reason = spec.ok ? null : spec.reason
  return { run: entry.key, state: stateOf(spec, status, claim), reason, end: status?.end ?? null, owner, labels }
}

const stateOf = (spec: Parsed<RunSpec>, status: RunStatus | null, claim: Claim | null): RunState =>
  status?.state === 'ended' ? 'ended' : !spec.ok ? 'invalid' : claim === null ? 'waiting' : 'running'

const endText = (end: RunStatus['end']): string | null =>
  end === null ? null : `${end.reason}${end.detail === null || end.detail === undefined ? '' : `: ${end.detail}`}`

const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')

/** `k:v` asks for the value, `k` for the label at all. */
function hasLabel(row: Row, wanted: string): boolean {
  const at = wanted.indexOf(':')
  return at === -1 ? wanted in row.labels : row.labels[wanted.slice(0, at)] === wanted.slice(at + 1)
}

/** Shows everything that is known of one run. */
export async function showRun(nats: Nats, run: string, print: Print): Promise<void> {
  if (!isRunId(run)) throw new CommandError('unknown', `there is no run ${run}`)
  const [registration, status] = await Promise.all([readRegistration(nats, run), readStatus(nats, run)])
  // A key that was deleted cancels its run; what it was is still to be seen.
  if (registration === null && status === null) throw new CommandError('unknown', `there is no run ${run}`)
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
    state: stateOf(spec, status, claim),
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

/** Registers a run; the same registration again changes nothing and is no failure. */
export async function addRun(nats: Nats, run: string, body: unknown, print: Print): Promise<void> {
  const parsed = parseRegistration(run, body)
  if (!parsed.ok) throw new CommandError('usage', parsed.reason)
  const { created } = await register(nats, parsed.value)
  print.result({ run, created }, created ? `${run} is registered` : `${run} was registered already, with the same body`)
}

/** Asks for the end of a run; its owner carries it out. */
export async function cancelRun(nats: Nats, run: string, print: Print): Promise<void> {
  if (!isRunId(run)) throw new CommandError('unknown', `there is no run ${run}`)
  const status = await readStatus(nats, run)
  if (status?.state === 'ended') {
    print.result({ run, state: 'ended', end: status.end }, `${run} has ended already: ${endText(status.end) ?? ''}`)
    return
  }
  if (!(await requestCancel(nats, run))) {
    const why = (await readRegistration(nats, run)) === null ? 'unknown' : 'wrong'
    throw new CommandError(
      why,
      why === 'unknown' ? `there is no run ${run}` : `the record of ${run} is not valid: delete its key`,
    )
  }
  print.result({ run, state: 'cancelling' }, `${run} will be cancelled by its owner`)
}
