import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { BatonError } from '@baton/core/errors'
import { isTopic } from '@baton/core/ids'
import { formatPosition } from '@baton/core/position'
import type { Nats } from '@baton/store/connect'
import { messageId, positionOf, storeTopic, type TopicMessage } from '@baton/store/publish-topic'
import {
  authorization,
  causeOf,
  codeOf,
  edgeOptions,
  isMistake,
  problemOf,
  readEdges,
  refusal,
} from '../edge-options.ts'
import type { EdgeFlags, Edges } from '../edge-options.ts'
import { CommandError } from '../exit.ts'
import { examples } from '../parse-argument.ts'
import type { Print } from '../print.ts'
import type { Tools } from '../surroundings.ts'

/** Whose keys these are: others' with the same text are not told apart from each other, but from these. */
const PUBLISHER = 'baton-cli'

type Flags = EdgeFlags & { readonly type?: string; readonly key?: string }

/** Where an event was stored, as an edge says it, too. */
type Stored = {
  readonly topic: string
  readonly stream: string
  readonly sequence: number
  /** Null where it could not be read: not every user may. */
  readonly position: string | null
  readonly duplicate: boolean
}

/** `baton publish`: one event into a topic, by NATS, or through an edge by who may only reach that. */
export function publishCommand(program: Command, { inStore, print, edges, signal }: Tools): void {
  edgeOptions(
    program.command('publish').description('store an event in a topic: by NATS, or through an edge where one is named'),
  )
    .argument('<topic>', '1 to 8 names joined by dots')
    .argument('<data>', 'as it is; - is stdin')
    .option('--type <type>', 'shown in the envelope')
    .option('--key <key>', 'within 2 minutes the same key stores nothing more')
    .addHelpText(
      'after',
      examples('baton publish orders.42 paid --key 7f3', 'cat order.json | baton publish orders.42 -'),
    )
    .action(async (topic: string, given: string, flags: Flags) => {
      if (!isTopic(topic)) throw new CommandError('usage', `${topic} is no topic: 1 to 8 names joined by dots`)
      const data = given === '-' ? readFileSync(0, 'utf8') : given
      const message = { topic, data, type: flags.type ?? null }
      if ((flags.edge ?? edges().edge) === undefined) {
        return inStore(async (nats) => show(await byNats(nats, message, flags.key ?? null), print()))
      }
      show(await byEdge(message, flags.key ?? null, readEdges(flags, edges()), signal), print())
    })
}

/** Nothing is printed that is not stored. */
const show = (stored: Stored, print: Print): void =>
  print.result(
    stored,
    `${stored.topic}  ${stored.sequence}  ${stored.position ?? '-'}${stored.duplicate ? '  (stored before)' : ''}`,
  )

async function byNats(nats: Nats, message: TopicMessage, key: string | null): Promise<Stored> {
  const { topic } = message
  const id = key === null ? null : messageId(PUBLISHER, topic, key)
  const stored = await storeTopic(nats, message, id)
  return { topic, ...stored, position: await whereAfter(nats, stored.sequence) }
}

/** The event is stored, whatever becomes of this question: failing by it would have people publish again. */
async function whereAfter(nats: Nats, sequence: number): Promise<string | null> {
  try {
    return formatPosition(await positionOf(nats, sequence))
  } catch (error) {
    if (error instanceof BatonError) return null
    throw error
  }
}

/**
 * At the first edge that answers. One that was cut off may have stored the event, so without a key the next edge is
 * asked only where this one could not be reached at all.
 */
async function byEdge(message: TopicMessage, key: string | null, edges: Edges, signal: AbortSignal): Promise<Stored> {
  const { topic, data, type } = message
  if (type !== null && key !== null) throw new CommandError('usage', 'an edge takes --type or --key, not both')
  const path = type === null ? `/topics/${topic}` : '/topics'
  const body = type === null ? data : JSON.stringify({ topic, data, type })
  const headers = {
    'baton-client': 'cli',
    'content-type': type === null ? 'text/plain; charset=utf-8' : 'application/json',
    ...(key === null ? {} : { 'idempotency-key': key }),
    ...authorization(edges),
  }
  let trouble = ''
  for (const edge of edges.urls) {
    try {
      const response = await fetch(new URL(path, edge), { method: 'POST', headers, body, signal })
      if (response.ok) return { duplicate: false, ...((await response.json()) as Omit<Stored, 'duplicate'>) }
      trouble = `${edge}: ${await problemOf(response)}`
      const refused = refusal(response.status, trouble)
      if (refused !== null) throw refused
    } catch (error) {
      if (error instanceof CommandError || isMistake(error) || signal.aborted) throw error
      trouble = `${edge}: ${causeOf(error)}`
      if (key === null && !isUnreached(error)) break
    }
  }
  throw new CommandError('unreachable', trouble)
}

const isUnreached = (error: unknown): boolean => error instanceof Error && codeOf(error.cause) === 'ECONNREFUSED'
