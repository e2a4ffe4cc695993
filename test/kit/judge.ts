import { expect } from 'vitest'
import { check, type Allowances } from './checker.ts'
import type { ClientHistory, JobEmission, LogEntry, RunHistory } from './history.ts'
import type { SseClient } from './sse-client.ts'
import type { System } from './system.ts'

/** How long two tails of a job may overlap on a busy machine: a suspicion window, generously. */
export const OVERLAP_MS = 5000

export const clientHistory = (client: string, from: SseClient, firstIndex = 1): ClientHistory => ({
  client,
  frames: from.frames,
  openings: from.openings,
  breach: from.breach === null ? null : String(from.breach),
  firstIndex,
})

/** Takes the history of one run from the agents, the log and the clients, and expects every promise to hold. */
export async function expectPromises(
  system: System,
  run: string,
  parts: {
    /** The agents' own job names, by the job's name in the run. */
    jobs: readonly JobEmission[]
    clients?: readonly SseClient[]
    over?: boolean
    /** The log as it was recorded while it grew; without it owner records may be rolled up already. */
    log?: readonly LogEntry[]
  },
  allowances: Partial<Allowances> = {},
): Promise<RunHistory> {
  const { jobs, clients = [], over = true } = parts
  const log = parts.log ?? (await system.log(run))
  const histories = clients.map((client, at) => clientHistory(`${at + 1}`, client))
  const history: RunHistory = { run, jobs, log, clients: histories, over }
  const ownersKnown = parts.log !== undefined
  expect(check(history, { overlapMs: OVERLAP_MS, nowMs: Date.now(), ownersKnown, ...allowances })).toEqual([])
  return history
}
