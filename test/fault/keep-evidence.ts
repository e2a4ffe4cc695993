import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../kit/find-binary.ts'
import type { FaultRunResult } from './fault-run.ts'

/** Writes the histories of a failed fault run as JSON lines, and what every process said; answers the folder. */
export async function keepEvidence(seed: number, result: FaultRunResult): Promise<string> {
  const folder = join(root, '.baton', 'fault', String(seed))
  await mkdir(folder, { recursive: true })
  const lines = (values: readonly unknown[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join('')
  const files: [string, string][] = [
    ['faults.jsonl', lines(result.faults)],
    ['violations.jsonl', lines(result.violations)],
    ...[...result.outputs].map(([name, output]): [string, string] => [`${name}.log`, output]),
    ...result.histories.flatMap(({ run, log, jobs, clients }): [string, string][] => [
      [`${run}.log.jsonl`, lines(log)],
      [`${run}.emitted.jsonl`, lines(jobs.flatMap(({ job, events }) => events.map((event) => ({ job, ...event }))))],
      [`${run}.connections.jsonl`, lines(jobs.flatMap(({ connections }) => connections))],
      ...clients.flatMap(({ client, frames, openings }): [string, string][] => [
        [`${run}.${client}.frames.jsonl`, lines(frames)],
        [`${run}.${client}.openings.jsonl`, lines(openings)],
      ]),
    ]),
  ]
  for (const [name, text] of files) await writeFile(join(folder, name), text)
  return folder
}
