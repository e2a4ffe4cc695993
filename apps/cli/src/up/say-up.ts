import { demoStream } from './demo.ts'
import type { Plan } from './plan.ts'
import type { Running, UpEvent } from './up.ts'

/** What `baton up` writes for a person; null where there is nothing worth a line. */
export function upText(event: UpEvent, natsCli: string): string | null {
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

function ready({ plan, processes, runs, late }: UpEvent & { event: 'ready' }, natsCli: string): string {
  const lateLines = late.length === 0 ? [] : ['', `Not ready yet: ${late.join(', ')}; see .baton/logs/`]
  return [
    '',
    ...table(processes),
    '',
    `NATS     ${plan.natsUrl}`,
    ...(plan.edgeUrls[0] === undefined ? [] : [`Console  ${plan.edgeUrls[0]}/`]),
    ...lateLines,
    '',
    'To paste:',
    ...toPaste(plan, runs[0] ?? 'mine', natsCli).map((line) => `  ${line}`),
    '',
    'Ctrl-C stops all of it. Kill any of the processes and see what happens.',
  ].join('\n')
}

function toPaste(plan: Plan, run: string, natsCli: string): string[] {
  const agent = plan.agentUrl === null ? 'http://127.0.0.1:9000/jobs/mine/stream' : demoStream(plan.agentUrl, 'mine')
  const edge = plan.edgeUrls[0]
  const body = JSON.stringify({ run: 'mine', url: agent })
  return [
    ...(edge === undefined ? [] : [`curl -N ${edge}/runs/${run}/events`]),
    ...(edge === undefined ? [] : [`curl -X POST ${edge}/runs -H 'content-type: application/json' -d '${body}'`]),
    `${natsCli} -s ${plan.natsUrl} sub 'live.run.*'`,
  ]
}

function table(processes: readonly Running[]): string[] {
  const width = Math.max(...processes.map(({ name }) => name.length))
  return processes.map(({ name, pid, url }) => `${name.padEnd(width)}  pid ${String(pid ?? '-').padEnd(7)} ${url}`)
}

const short = (line: string): string => (line.length > 300 ? `${line.slice(0, 300)}…` : line)
