import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../kit/find-binary.ts'
import type { WaveResult } from './wave.ts'

/** Writes the histories of a failed wave as JSON lines, and what every process said; answers the folder. */
export async function keepEvidence(
  name: string,
  result: Pick<WaveResult, 'faults' | 'violations' | 'history'>,
  outputs: ReadonlyMap<string, string>,
): Promise<string> {
  const folder = await keepOutputs(name, outputs)
  const { runs, set, topics, stored, published, heard, nodes } = result.history
  const lines = (values: readonly unknown[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join('')
  const files: [string, string][] = [
    ['faults.jsonl', lines(result.faults)],
    ['violations.jsonl', lines(result.violations)],
    ...runs.flatMap(({ run, log, jobs, clients }): [string, string][] => [
      [`${run}.log.jsonl`, lines(log)],
      [`${run}.emitted.jsonl`, lines(jobs.flatMap(({ job, events }) => events.map((event) => ({ job, ...event }))))],
      [
        `${run}.connections.jsonl`,
        lines(jobs.flatMap(({ job, connections }) => connections.map((one) => ({ job, ...one })))),
      ],
      ...clients.flatMap(({ client, frames, openings }): [string, string][] => [
        [`${run}.${client}.frames.jsonl`, lines(frames)],
        [`${run}.${client}.openings.jsonl`, lines(openings)],
      ]),
    ]),
    ...[set, ...topics.map(({ client }) => client)].flatMap(({ client, frames, openings }): [string, string][] => [
      [`${client}.frames.jsonl`, lines(frames)],
      [`${client}.openings.jsonl`, lines(openings)],
    ]),
    ['topics.log.jsonl', lines(stored)],
    ['topics.published.jsonl', lines(published)],
    ['native.heard.jsonl', lines(heard)],
    ...nodes.flatMap(({ node, logs }) =>
      [...(logs ?? [])].map(([run, log]): [string, string] => [`${run}.log-of-${node}.jsonl`, lines(log)]),
    ),
  ]
  for (const [file, text] of files) await writeFile(join(folder, file), text)
  return folder
}

/** Writes what every process said: all there is when a wave itself has failed. */
export async function keepOutputs(name: string, outputs: ReadonlyMap<string, string>): Promise<string> {
  const folder = join(root, '.baton', 'fault', name)
  await mkdir(folder, { recursive: true })
  for (const [process, output] of outputs) await writeFile(join(folder, `${process}.log`), output)
  return folder
}
