import { cpus, totalmem } from 'node:os'
import { readFile } from 'node:fs/promises'
import { connectNats, type Nats } from '@baton/store/connect'
import type { NatsServer } from '../kit/nats-server.ts'

/** One line of the table: what was measured, and its figures by name, units in the names. */
export type Row = { readonly what: string; readonly figures: Readonly<Record<string, number | string>> }

/** The value below which this share of the samples lies; of few samples, the next one up. */
function percentile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

export const spread = (samplesMs: readonly number[]): Record<string, number> => ({
  n: samplesMs.length,
  p50_ms: Math.round(percentile(samplesMs, 0.5)),
  p99_ms: Math.round(percentile(samplesMs, 0.99)),
  max_ms: Math.round(Math.max(...samplesMs)),
})

export const machine = (): string => {
  const [first] = cpus()
  return `${cpus().length} × ${first?.model.trim() ?? 'unknown CPU'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}, ${process.platform}`
}

export type Use = { readonly cpuMs: number; readonly residentBytes: number }

const TICKS_PER_SECOND = 100

/** CPU time so far and memory now of a process, from /proc. */
export async function useOf(pid: number): Promise<Use> {
  const [stat, status] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/status`, 'utf8'),
  ])
  // The name in parentheses may hold blanks: count from behind it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const cpuMs = ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
  return { cpuMs, residentBytes: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024 }
}

export type Traffic = { readonly received: number; readonly sent: number }

/** Counts the messages a nats-server has taken and sent, through its system account. */
export class TrafficMeter {
  readonly #nats: Nats

  private constructor(nats: Nats) {
    this.#nats = nats
  }

  static async of(server: NatsServer): Promise<TrafficMeter> {
    return new TrafficMeter(
      await connectNats({ servers: [server.systemUrl], name: 'bench-meter' }, AbortSignal.timeout(10_000)),
    )
  }

  async read(): Promise<Traffic> {
    const answer = await this.#nats.nc.request('$SYS.REQ.SERVER.PING.STATSZ', '', { timeout: 5000 })
    const { statsz } = answer.json<{ statsz: { sent: { msgs: number }; received: { msgs: number } } }>()
    return { received: statsz.received.msgs, sent: statsz.sent.msgs }
  }

  /** The same for the connections whose names begin so. */
  async readOf(prefix: string): Promise<Traffic> {
    const answer = await this.#nats.nc.request('$SYS.REQ.SERVER.PING.CONNZ', '{}', { timeout: 5000 })
    const { data } = answer.json<{ data: { connections: { name?: string; in_msgs: number; out_msgs: number }[] } }>()
    const found = data.connections.filter(({ name }) => name?.startsWith(prefix) === true)
    if (found.length === 0) throw new Error(`no connection is called ${prefix}…`)
    const sum = (field: 'in_msgs' | 'out_msgs') => found.reduce((all, one) => all + one[field], 0)
    return { received: sum('in_msgs'), sent: sum('out_msgs') }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nats.nc.close()
  }
}

export const MiB = (bytes: number): number => Math.round(bytes / 2 ** 20)
