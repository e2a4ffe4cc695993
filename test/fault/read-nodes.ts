import type { LogEntry } from '../kit/history.ts'
import { readLogsOf } from '../kit/read-log.ts'
import type { World } from './world.ts'

/** What one node of NATS holds of the runs' log, by run; null where it could not be read. */
export type NodeLog = { readonly node: string; readonly logs: ReadonlyMap<string, readonly LogEntry[]> | null }

/** Reads the log from each node of a cluster by itself, once all have caught up. Nothing where there is only one. */
export async function readNodes({ cluster, store }: World): Promise<readonly NodeLog[]> {
  if (cluster === null) return []
  await cluster.healthy().catch(() => undefined)
  const logs: NodeLog[] = []
  for (const { name: node } of cluster.nodes) {
    logs.push({ node, logs: await readLogsOf(store, node).catch(() => null) })
  }
  return logs
}
