import type { Command } from 'commander'
import { isCode } from '@baton/core/errors'
import { sleep } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { applyTopology, planTopology, type Change, type TopologyOptions } from '@baton/store/topology'
import { CommandError } from '../exit.ts'
import type { Tools } from '../surroundings.ts'

type Flags = { readonly dryRun?: true; readonly allowLoss?: true }

/**
 * A cluster that is being formed has no place for a stream yet, or nobody who leads: that takes seconds. It is the time in
 * which all of a set-up is tried, looking and changing together.
 */
const PATIENCE_MS = 30_000
const AGAIN_MS = 500

/** `baton setup`: streams and buckets as the environment asks for them. */
export function setupCommand(program: Command, tools: Tools): void {
  const { inStore, topology } = tools
  program
    .command('setup')
    .description('make the streams and buckets on BATON_NATS_URL, or bring them to what they should be')
    .option('--dry-run', 'only show the difference')
    .option('--allow-loss', 'also make changes that delete stored messages')
    .action((given: Flags) => inStore((nats) => setup(nats, { ...topology(), ...given }, tools)))
}

/**
 * Makes the streams and buckets, or brings them to what they should be. Shows the difference first; a change that
 * would lose stored data is refused, and then nothing is changed.
 */
async function setup(nats: Nats, options: TopologyOptions & Flags, tools: Tools): Promise<void> {
  const { dryRun = false, allowLoss = false, ...topology } = options
  const untilMs = performance.now() + PATIENCE_MS
  const plan = () => planTopology(nats, topology)
  const changes = await patiently(plan, untilMs, tools)
  tools.print().result({ dryRun, changes: changes.map(shown) }, changes.map(line).join('\n'))
  if (dryRun) return
  try {
    // Some of what was to be made may have been made before NATS was away.
    const apply = async () => {
      const changes = await plan()
      tools.signal.throwIfAborted()
      await applyTopology(nats, changes, { allowLoss })
    }
    await patiently(apply, untilMs, tools)
  } catch (error) {
    if (!isCode(error, 'invalid')) throw error
    throw new CommandError('wrong', `nothing was changed: ${error.message}. --allow-loss does it all the same`)
  }
}

/**
 * Tries again while NATS can do nothing, until then; what it said last is the reason where that does not end. Who stops it
 * has stopped all of it: nothing is tried once more. Rejects with the signal's reason then.
 */
async function patiently<T>(work: () => Promise<T>, untilMs: number, { warn, signal }: Tools): Promise<T> {
  for (let isSaid = false; ; isSaid = true) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      if (!isCode(error, 'unavailable', 'unknown_outcome', 'in_flight')) throw error
      if (performance.now() > untilMs) throw new CommandError('unreachable', error.message)
      if (!isSaid) warn(`waiting for NATS: ${error.message}`)
      await sleep(AGAIN_MS, signal)
    }
  }
}

const shown = (change: Change) =>
  change.kind === 'update'
    ? { name: change.name, kind: change.kind, fields: change.fields }
    : { name: change.name, kind: change.kind }

/** A stream or bucket and what is to be done about it. */
function line(change: Change): string {
  switch (change.kind) {
    case 'same':
      return `  ${change.name}: as it should be`
    case 'create':
      return `+ ${change.name}: to be made`
    case 'update':
      return [`~ ${change.name}: to be changed`, ...change.fields.map(field)].join('\n')
  }
}

function field({ field, from, to, refused }: (Change & { kind: 'update' })['fields'][number]): string {
  const text = (value: unknown) => (value === undefined ? 'unset' : JSON.stringify(value))
  return `    ${field}: ${text(from)} → ${text(to)}${refused === null ? '' : ` (refused: ${refused})`}`
}
