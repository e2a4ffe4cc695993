import { Option, type Command } from 'commander'
import type { Claim, RunStatus } from '@baton/core/records'
import { parseRunRecord } from '@baton/core/run'
import { RUN_STATES, runState, type RunState } from '@baton/core/run-state'
import { listKeys, type Entry } from '@baton/store/bucket'
import { readClaim } from '@baton/store/claim-store'
import type { Nats } from '@baton/store/connect'
import { BUCKET } from '@baton/store/names'
import { parseStatus } from '@baton/store/registry'
import { examples } from '../parse-argument.ts'
import { table, type Print } from '../print.ts'
import { endText, labelsText } from '../run-texts.ts'
import type { Tools } from '../surroundings.ts'

type Row = {
  readonly run: string
  readonly state: RunState
  readonly reason: string | null
  readonly end: RunStatus['end']
  readonly owner: Pick<Claim, 'relay' | 'boot' | 'epoch'> | null
  readonly labels: Readonly<Record<string, string>>
}

type Filter = { readonly state?: RunState; readonly label?: string }

/** `baton runs ls`: what is wanted, with what is. */
export function runsLsCommand(runs: Command, { inStore, print, signal }: Tools): void {
  runs
    .command('ls')
    .description('list the runs')
    .addOption(new Option('--state <state>', 'only these').choices(RUN_STATES))
    .option('--label <k:v>', 'only those with this label; k alone: with any value of it')
    .addHelpText('after', examples('baton runs ls --state waiting', "baton runs ls --json | jq -r '.[].run'"))
    .action((filter: Filter) => inStore((nats) => listRuns(nats, filter, print(), signal)))
}

async function listRuns(nats: Nats, filter: Filter, print: Print, signal: AbortSignal): Promise<void> {
  const [wanted, status, claims] = await Promise.all(
    [BUCKET.runs, BUCKET.status, BUCKET.claims].map((bucket) => listKeys(nats, bucket, signal)),
  )
  const byKey = (entries: readonly Entry[] = []) => new Map(entries.map((entry) => [entry.key, entry]))
  const [statusOf, claimOf] = [byKey(status), byKey(claims)]
  const { state, label } = filter
  const rows = (wanted ?? [])
    .map((entry) => rowOf(entry, parseStatus(statusOf.get(entry.key)), readClaim(claimOf.get(entry.key))))
    .filter((row) => state === undefined || row.state === state)
    .filter((row) => label === undefined || hasLabel(row, label))
    .sort((one, other) => one.run.localeCompare(other.run))
  const cells = rows.map((row) => [
    row.run,
    row.state,
    row.owner?.relay ?? '',
    String(row.owner?.epoch ?? ''),
    row.reason ?? endText(row.end) ?? labelsText(row.labels),
  ])
  const headings = ['RUN', 'STATE', 'OWNER', 'EPOCH', '']
  print.result(rows, rows.length === 0 ? 'no runs' : table(headings, cells, print.width))
}

function rowOf(entry: Entry, status: RunStatus | null, claim: Claim | null): Row {
  const spec = parseRunRecord(entry.key, entry.value ?? '')
  const labels = spec.ok ? spec.value.labels : {}
  const owner = claim === null ? null : { relay: claim.relay, boot: claim.boot, epoch: claim.epoch }
  const reason = spec.ok ? null : spec.reason
  return { run: entry.key, state: runState(spec, status, claim), reason, end: status?.end ?? null, owner, labels }
}

/** `k:v` asks for the value, `k` for the label at all. */
function hasLabel(row: Row, wanted: string): boolean {
  const at = wanted.indexOf(':')
  return at === -1 ? Object.hasOwn(row.labels, wanted) : row.labels[wanted.slice(0, at)] === wanted.slice(at + 1)
}
