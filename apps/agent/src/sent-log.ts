import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs'
import { join } from 'node:path'

/** A line of the log of what was sent. Times are wall-clock ms; `connection` counts from 1 in each job. */
export type SentLine =
  | { event: 'made'; job: string; options: object }
  | { event: 'open'; job: string; connection: number; lastEventId: string | null; first: number }
  /** These events are wholly in the socket. */
  | { event: 'sent'; job: string; connection: number; from: number; to: number }
  /** This many bytes of the event after the last one were sent, too. */
  | { event: 'close'; job: string; connection: number; last: number; partialBytes: number }
  | { event: 'answer'; job: string; answer: string; lastEventId: string | null }
  | { event: 'cancel'; job: string; emitted: number }

export type SentLog = { add(line: SentLine): void; close(): Promise<void> }

export const noSentLog: SentLog = { add: () => undefined, close: () => Promise.resolve() }

/** Appends JSON lines, each with its time `at`, to `agent.jsonl` in a folder. */
export function openSentLog(folder: string): SentLog {
  mkdirSync(folder, { recursive: true })
  const file: WriteStream = createWriteStream(join(folder, 'agent.jsonl'), { flags: 'a' })
  return {
    add: (line) => void file.write(`${JSON.stringify({ at: Date.now(), ...line })}\n`),
    close: () => new Promise((resolve) => file.end(resolve)),
  }
}
