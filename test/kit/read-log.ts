import { connectNats, type Nats } from '@baton/store/connect'
import { decodeEvent, type EventMessage } from '@baton/store/codec'
import { directGet, type DirectMessage } from '@baton/store/direct-get'
import { STREAM } from '@baton/store/names'
import type { OwnerRecord } from '@baton/core/records'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from './eventually.ts'
import type { LogEntry } from './history.ts'
import { readReplica } from './read-replica.ts'

const PAGE = 1000

type StoredMessage = EventMessage & {
  readonly subject: string
  readonly seq: number
  /** By the clock of the node that led the stream. */
  readonly storedAtMs?: number
}
/** A request that falls into the death of the server is never answered: waiting longer for it would miss what comes after. */
const ANSWER_MS = 500

/**
 * Everything the stream RUNS holds from a sequence on, straight from NATS, by run; checkpoints are left out. `onRead`
 * hears how far it has come, also over those.
 */
async function* readStream(
  nats: Nats,
  from: number,
  onRead: (sequence: number) => void = () => undefined,
): AsyncGenerator<{ run: string; entry: LogEntry; sequence: number }> {
  for await (const message of readMessages(nats, STREAM.runs, from)) {
    const found = entryOf(message)
    if (found !== null) yield { ...found, sequence: message.seq }
    onRead(message.seq)
  }
}

/** Everything a stream holds from a sequence on, as some replica of it has it. */
export async function* readMessages(nats: Nats, stream: string, from: number): AsyncGenerator<StoredMessage> {
  for (let seq = from; ;) {
    const page = await directGet(nats, stream, { seq, batch: PAGE, max_bytes: 8 * 2 ** 20 }, ANSWER_MS)
    for (const message of page) yield { ...message, storedAtMs: storedAtMs(message) }
    const last = page.at(-1)
    if (last === undefined) return
    seq = last.seq + 1
  }
}

const storedAtMs = ({ headers }: DirectMessage): number => Date.parse(headers.stamped('Nats-Time-Stamp') ?? '')

function entryOf(message: StoredMessage): { run: string; entry: LogEntry } | null {
  const [, run = '', kind] = message.subject.split('.')
  const { seq: sequence, storedAtMs } = message
  const place = { sequence, ...(storedAtMs === undefined ? {} : { storedAtMs }) }
  if (kind === 'owner') {
    // A marker of an expired record has no body.
    return message.data.length === 0
      ? null
      : {
          run,
          entry: { kind: 'owner', ...place, owner: JSON.parse(new TextDecoder().decode(message.data)) as OwnerRecord },
        }
  }
  if (kind !== undefined) return null
  const event = decodeEvent(run, sequence, message)
  return event === null ? null : { run, entry: { kind: 'event', ...place, event } }
}

function keep(logs: Map<string, LogEntry[]>, run: string, entry: LogEntry): void {
  const entries = logs.get(run)
  if (entries === undefined) logs.set(run, [entry])
  else entries.push(entry)
}

/** The logs of all runs as they are now. After the end of a run only its last owner record is left. */
export async function readLogs(nats: Nats): Promise<Map<string, LogEntry[]>> {
  const logs = new Map<string, LogEntry[]>()
  for await (const { run, entry } of readStream(nats, 1)) keep(logs, run, entry)
  return logs
}

/** The logs of all runs as one node of a cluster has them, whatever the others have. */
export async function readLogsOf(nats: Nats, node: string): Promise<Map<string, LogEntry[]>> {
  const logs = new Map<string, LogEntry[]>()
  for (const message of await readReplica(nats, STREAM.runs, node)) {
    const found = entryOf({ ...message, seq: message.sequence })
    if (found !== null) keep(logs, found.run, found.entry)
  }
  return logs
}

/**
 * Records the log as it is written, so that owner records are seen before the end of their run rolls them up, and
 * what was readable once is held against what is there at last.
 */
export class LogRecorder {
  readonly #nats: Nats
  readonly #over = new AbortController()
  readonly #entries = new Map<string, LogEntry[]>()
  readonly #from: number
  #next: number
  readonly #done: Promise<void>

  private constructor(nats: Nats, from: number) {
    this.#nats = nats
    this.#from = this.#next = from
    this.#done = this.#record()
  }

  static async start(natsUrl: string, from = 1): Promise<LogRecorder> {
    const servers = natsUrl.split(',')
    return new LogRecorder(await connectNats({ servers, name: 'test-recorder' }, AbortSignal.timeout(20_000)), from)
  }

  async #record(): Promise<void> {
    while (!this.#over.signal.aborted) {
      try {
        for await (const { run, entry, sequence } of readStream(this.#nats, this.#next)) {
          this.#keep(run, entry, sequence)
        }
      } catch {
        // The server may be dead just now, or the stream not made yet: what it has is there later.
      }
      await delay(20)
    }
  }

  #keep(run: string, entry: LogEntry, sequence: number): void {
    keep(this.#entries, run, entry)
    this.#next = sequence + 1
  }

  /** Ends the recording and answers each run's log; throws when an event that was there once is there no more. */
  async finish(): Promise<Map<string, LogEntry[]>> {
    const { logs, gone } = await this.end()
    if (gone !== null) throw new Error(gone)
    return logs
  }

  /** Ends the recording. `gone`: in words, what was readable once and is there no more. */
  async end(): Promise<{ logs: Map<string, LogEntry[]>; gone: string | null }> {
    this.#over.abort()
    await this.#done
    // Of several replicas one may be behind: what its leader has is what must be read, here and in the second reading.
    const { last_seq: last } = (
      await eventually('the log has a leader', () => this.#nats.jsm.streams.info(STREAM.runs))
    ).state
    await eventually('the last of the log is read', async () => {
      let reached = this.#next - 1
      for await (const { run, entry, sequence } of readStream(this.#nats, this.#next, (seq) => (reached = seq))) {
        this.#keep(run, entry, sequence)
      }
      return reached >= last
    })
    const now = new Map<number, string>()
    await eventually('the whole log is read again', async () => {
      now.clear()
      let reached = this.#from - 1
      for await (const { entry, sequence } of readStream(this.#nats, this.#from, (seq) => (reached = seq))) {
        if (entry.kind === 'event') now.set(sequence, entry.event.data)
      }
      return reached >= last
    })
    for (const [run, entries] of this.#entries) {
      const lost = entries.find((entry) => entry.kind === 'event' && now.get(entry.sequence) !== entry.event.data)
      if (lost === undefined) continue
      return { logs: this.#entries, gone: `run ${run}: sequence ${lost.sequence} was stored once, and is not any more` }
    }
    return { logs: this.#entries, gone: null }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort()
    await this.#done
    await this.#nats.nc.close()
  }
}
