import type { Command } from 'commander'
import { isCode } from '@baton/core/errors'
import type { Nats } from '@baton/store/connect'
import { applyTopology, planTopology, type Change, type TopologyOptions } from '@baton/store/topology'
import { CommandError } from '../exit.ts'
import type { Print } from '../print.ts'
import type { Tools } from '../surroundings.ts'

type Flags = { readonly dryRun?: true; readonly allowLoss?: true }

/** `baton setup`: streams and buckets as the environment asks for them. */
export function setupCommand(program: Command, { inStore, print, topology }: Tools): void {
  program
    .command('setup')
    .description('make the streams and buckets on BATON_NATS_URL, or bring them to what they should be')
    .option('--dry-run', 'only show the difference')
    .option('--allow-loss', 'also make changes that delete stored messages')
    .action((given: Flags) => inStore((nats) => setup(nats, { ...topology(), ...given }, print())))
}

/**
 * Makes the streams and buckets, or brings them to what they should be. Shows the difference first; a change that
 * would lose stored data is refused, and then nothing is changed.
 */
async function setup(nats: Nats, options: TopologyOptions & Flags, print: Print): Promise<void> {
  const { dryRun = false, allowLoss = false, ...topology } = options
  const changes = await planTopology(nats, topology)
  print.result({ dryRun, changes: changes.map(shown) }, changes.map(line).join('\n'))
  if (dryRun) return
  try {
    await applyTopology(nats, changes, { allowLoss })
  } catch (error) {
    if (!isCode(error, 'invalid')) throw error
    throw new CommandError('wrong', `nothing was changed: ${error.message}. --allow-loss does it all the same`)
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
