import { demoStream } from './demo.ts'
import type { Addresses } from './plan.ts'
import type { Running, UpEvent } from './up.ts'

/** What `baton up` writes for a person; null where there is nothing worth a line. `natsCli` null: there is none here. */
export function upText(event: UpEvent, natsCli: string | null): string | null {
  switch (event.event) {
    case 'noted':
      return event.text
    case 'ready':
      return ready(event, natsCli)
    case 'ended':
      return ended(event)
    case 'restarted':
      return `${event.name} runs again as pid ${event.pid}`
    case 'stopping':
      return 'stopping …'
    case 'stopped':
      return 'stopped; no process is left'
  }
}

function ended({ name, pid, how, lastWords }: UpEvent & { event: 'ended' }): string {
  // Whoever was killed had no time to say why; whoever exits by itself has.
  const reason = how.startsWith('SIG') || lastWords === '' ? '' : `; its last line: ${short(lastWords)}`
  return `${name} (pid ${pid}) has ended: ${how}${reason}`
}

function ready(
  { addresses, processes, runs, late, dataFolder }: UpEvent & { event: 'ready' },
  natsCli: string | null,
): string {
  const lateLines = late.length === 0 ? [] : ['', `Not ready yet: ${late.join(', ')}; see ${dataFolder}/logs/`]
  return [
    '',
    ...table(processes),
    '',
    `NATS     ${addresses.natsUrl}`,
    ...(addresses.edgeUrls[0] === undefined ? [] : [`Console  ${addresses.edgeUrls[0]}/`]),
    ...lateLines,
    '',
    'To paste:',
    ...toPaste(addresses, runs[0] ?? 'mine', natsCli).map((line) => `  ${line}`),
    '',
    'Ctrl-C stops all of it. Kill any of the processes and see what happens.',
  ].join('\n')
}

function toPaste(addresses: Addresses, run: string, natsCli: string | null): string[] {
  const agent =
    addresses.agentUrl === null ? 'http://127.0.0.1:9000/jobs/mine/stream' : demoStream(addresses.agentUrl, 'mine')
  const edge = addresses.edgeUrls[0]
  const body = JSON.stringify({ run: 'mine', url: agent })
  return [
    ...(edge === undefined ? [] : [`curl -N ${edge}/runs/${run}/events`]),
    ...(edge === undefined ? [] : [`curl -X POST ${edge}/runs -H 'content-type: application/json' -d '${body}'`]),
    `${natsCli ?? 'nats'} -s ${addresses.natsUrl} sub 'live.run.*'${natsCli === null ? '   # npm run setup brings the nats CLI' : ''}`,
  ]
}

function table(processes: readonly Running[]): string[] {
  const width = Math.max(...processes.map(({ name }) => name.length))
  return processes.map(({ name, pid, url }) => `${name.padEnd(width)}  pid ${String(pid ?? '-').padEnd(7)} ${url}`)
}

const short = (line: string): string => (line.length > 300 ? `${line.slice(0, 300)}…` : line)
