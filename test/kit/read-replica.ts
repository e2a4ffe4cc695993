import { AckPolicy, DeliverPolicy } from '@nats-io/jetstream'
import { nanos, nuid, type MsgHdrs } from '@nats-io/nats-core'
import type { Nats } from '@baton/store/connect'

/** A message as one node has it. */
export type ReplicaMessage = {
  readonly subject: string
  readonly sequence: number
  readonly headers: MsgHdrs | undefined
  readonly data: Uint8Array
}

/** A consumer lands on one of three nodes by chance: so many that miss the one wanted do not happen. */
const ATTEMPTS = 100
const PAGE = 1000
const INACTIVE_MS = 10_000

/**
 * All that one node of a cluster keeps of a stream, read from its own files. A consumer with a single replica lives on
 * one node and reads what that node has; the answer to its making says which one it is. NATS has no way to ask for a
 * node, so consumers are made until one is on the right one. Needs a cluster with a leader; throws where the node is away.
 */
export async function readReplica(nats: Nats, stream: string, node: string): Promise<readonly ReplicaMessage[]> {
  const name = await consumerAt(nats, stream, node)
  try {
    const consumer = await nats.js.consumers.get(stream, name)
    const found: ReplicaMessage[] = []
    let { num_pending: pending } = await consumer.info()
    while (pending > 0) {
      const before = found.length
      for await (const message of await consumer.fetch({ max_messages: Math.min(PAGE, pending), expires: 5000 })) {
        const { subject, seq: sequence, headers, data } = message
        found.push({ subject, sequence, headers, data })
        pending = message.info.pending
      }
      if (found.length === before) throw new Error(`${node} gives no more of ${stream}, though ${pending} are left`)
    }
    return found
  } finally {
    await nats.jsm.consumers.delete(stream, name).catch(() => undefined)
  }
}

async function consumerAt(nats: Nats, stream: string, node: string): Promise<string> {
  const seen = new Set<string>()
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const { name, cluster } = await nats.jsm.consumers.add(stream, {
      name: `test-replica-${nuid.next()}`,
      ack_policy: AckPolicy.None,
      deliver_policy: DeliverPolicy.All,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: nanos(INACTIVE_MS),
    })
    if (cluster?.leader === node) return name
    seen.add(cluster?.leader ?? 'nowhere')
    await nats.jsm.consumers.delete(stream, name).catch(() => undefined)
  }
  throw new Error(`no consumer of ${stream} came to ${node}, only to ${[...seen].join(', ')}`)
}
