import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { isCode } from '@baton/core/errors'
import { parseRunRecord } from '@baton/core/run'
import { pause } from '@baton/service/sleep'
import { listKeys } from '@baton/store/bucket'
import type { Nats } from '@baton/store/connect'
import { BEAT, BUCKET, DISCONNECT, RELAY_CONNECTION } from '@baton/store/names'
import { onDisconnects } from '@baton/store/peers'
import { onRefusals, type Refusal } from '@baton/store/refusals'
import { planTopology, type Change, type TopologyOptions } from '@baton/store/topology'
import { CommandError } from '../exit.ts'
import { hearRelays } from '../hear-relays.ts'
import { open, type StoreOptions } from '../open-store.ts'
import { columns, type Print } from '../print.ts'
import type { Program, Tools } from '../surroundings.ts'

/** `note`: worth knowing, nothing is broken. `wrong`: somebody should act. */
type Finding = {
  readonly what: string
  readonly verdict: 'good' | 'note' | 'wrong'
  readonly detail: string
}

type Target = { readonly store: StoreOptions; readonly topology: TopologyOptions }

type DoctorOptions = {
  /** Null where the environment does not say what to look at. */
  readonly target: Target | null
  readonly programs: readonly Program[]
  /** What is wrong with the environment; empty when nothing is. */
  readonly complaints: readonly string[]
}

const NOTICE_MS = 2000
const LISTEN_MS = 1000

/** `baton doctor`: everything Baton stands on. */
export function doctorCommand(program: Command, tools: Tools): void {
  program
    .command('doctor')
    .description('look for what is wrong with the environment, the NATS server, the streams and the registry')
    .action(async () => {
      const [programs, complaints] = [await tools.programs(), tools.complaints()]
      const target = complaints.length > 0 ? null : { store: tools.store(), topology: tools.topology() }
      await doctor({ target, programs, complaints }, tools.print(), tools.signal)
    })
}

/** Looks at everything Baton stands on and says what is wrong. Changes nothing. Throws when something is. */
async function doctor(options: DoctorOptions, print: Print, signal: AbortSignal): Promise<void> {
  const findings = [
    ...environment(options),
    ...(options.target === null ? [] : await connected(options.target, signal)),
  ]
  const rows = findings.map(({ verdict, what, detail }) => [verdict === 'good' ? '' : verdict, what, detail])
  print.result(findings, columns(rows, print.width))
  const wrong = findings.filter(({ verdict }) => verdict === 'wrong').length
  if (wrong > 0) throw new CommandError('wrong', wrong === 1 ? 'one thing is wrong' : `${wrong} things are wrong`)
}

function environment({ programs, complaints }: DoctorOptions): Finding[] {
  return [
    { what: 'Node', verdict: 'good', detail: process.version },
    ...programs.map(({ name, version, needed }): Finding => ({
      what: name,
      verdict: version !== null ? 'good' : needed ? 'wrong' : 'note',
      detail: version ?? 'not found; `npm run setup` brings it',
    })),
    ...(complaints.length === 0 ? [{ what: 'environment', verdict: 'good', detail: 'no complaint' } as const] : []),
    ...complaints.map((detail): Finding => ({ what: 'environment', verdict: 'wrong', detail })),
  ]
}

async function connected(target: Target, signal: AbortSignal): Promise<Finding[]> {
  let nats: Nats
  try {
    nats = await open(target.store, 'baton-doctor', signal)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return [{ what: 'NATS', verdict: 'wrong', detail: error.message }]
  }
  const refused = new Map<string, Refusal>()
  onRefusals(nats, (refusal) => refused.set(refusal.subject, refusal))
  try {
    const version = nats.nc.info?.version ?? 'unknown'
    const server: Finding = { what: 'NATS', verdict: 'good', detail: `${nats.nc.getServer()}, nats-server ${version}` }
    const parts = [
      () => topology(nats, target.topology),
      () => notice(nats, target.store, refused, signal),
      () => relaysHeard(nats, refused, signal),
      () => registry(nats, signal),
    ]
    // One after the other: they would hear each other, and a slow server is not asked for everything at once.
    const found = [server]
    for (const part of parts) found.push(...(await part().catch(failure)))
    return [...found, ...[...refused.values()].map(lacking)]
  } finally {
    await nats.nc.close()
  }
}

const failure = (error: unknown): Finding[] => [
  { what: 'NATS', verdict: 'wrong', detail: error instanceof Error ? error.message : String(error) },
]

/** A right that this user lacks: what could not be looked at for want of it may be wrong as well. */
const lacking = ({ operation, subject }: Refusal): Finding => ({
  what: 'rights',
  verdict: 'wrong',
  detail: `this NATS user may not ${operation} to ${subject}`,
})

async function topology(nats: Nats, options: TopologyOptions): Promise<Finding[]> {
  const changes = await planTopology(nats, options)
  return changes.map((change) =>
    change.kind === 'same'
      ? { what: change.name, verdict: 'good', detail: 'as it should be' }
      : { what: change.name, verdict: 'wrong', detail: `${difference(change)}; ${remedy(change)}` },
  )
}

const remedy = (change: Change): string =>
  change.kind === 'update' && change.fields.some(({ refused }) => refused !== null)
    ? 'is the environment right? `baton setup` does it only with --allow-loss'
    : '`baton setup` does it'

const difference = (change: Change): string =>
  change.kind === 'update'
    ? change.fields
        .map(({ field, from, to }) => `${field} is ${JSON.stringify(from)}, not ${JSON.stringify(to)}`)
        .join('; ')
    : 'missing'

/** Says good-bye on a second connection and listens whether the server tells. */
async function notice(
  nats: Nats,
  store: StoreOptions,
  refused: ReadonlyMap<string, Refusal>,
  signal: AbortSignal,
): Promise<Finding[]> {
  const boot = `doctor-${randomUUID().slice(0, 8)}`
  const heard = new AbortController()
  const over = new AbortController()
  onDisconnects(nats, (gone) => gone === boot && heard.abort(), over.signal)
  await nats.nc.flush()
  const second = await open(store, `${RELAY_CONNECTION}${boot}`, signal)
  await second.nc.close()
  await pause(NOTICE_MS, AbortSignal.any([signal, heard.signal]))
  over.abort()
  const what = 'disconnect notice'
  if (heard.signal.aborted)
    return [{ what, verdict: 'good', detail: 'in force: a relay that dies is noticed within milliseconds' }]
  if (refused.has(DISCONNECT)) return [{ what, verdict: 'note', detail: 'not known: this NATS user may not hear it' }]
  return [
    { what, verdict: 'note', detail: 'not in force: takeovers rely on beats alone, about a second (nats/README.md)' },
  ]
}

async function relaysHeard(nats: Nats, refused: ReadonlyMap<string, Refusal>, signal: AbortSignal): Promise<Finding[]> {
  const found = await hearRelays(nats, LISTEN_MS, signal)
  if (refused.has(BEAT))
    return [{ what: 'relays', verdict: 'note', detail: 'not known: this NATS user may not hear them' }]
  if (found.length === 0) return [{ what: 'relays', verdict: 'wrong', detail: 'none is alive: no run is tailed' }]
  const names = found.map(({ relay, runs }) => `${relay} (${runs} ${runs === 1 ? 'run' : 'runs'})`).join(', ')
  return [
    {
      what: 'relays',
      verdict: found.length === 1 ? 'note' : 'good',
      detail: `${names}${found.length === 1 ? '; nobody would take over' : ''}`,
    },
  ]
}

async function registry(nats: Nats, signal: AbortSignal): Promise<Finding[]> {
  const entries = await listKeys(nats, BUCKET.runs, signal).catch((error: unknown) => {
    // Without the bucket there are no records; that it is missing is said above.
    if (isCode(error, 'not_found')) return []
    throw error
  })
  const invalid = entries.flatMap(({ key, value }): Finding[] => {
    const parsed = parseRunRecord(key, value ?? '')
    return parsed.ok
      ? []
      : [{ what: `run ${key}`, verdict: 'wrong', detail: `its record is not valid: ${parsed.reason}` }]
  })
  const valid = entries.length - invalid.length
  return [
    { what: 'registry', verdict: 'good', detail: `${valid} valid ${valid === 1 ? 'record' : 'records'}` },
    ...invalid,
  ]
}
