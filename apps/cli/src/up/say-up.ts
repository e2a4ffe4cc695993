import { demoStream } from './demo.ts'
import type { Running, UpEvent } from './up.ts'

/** What `baton up` writes for a person; null where there is nothing worth a line. */
export function upText(event: UpEvent, natsCli: string): string | null {
  switch (event.event) {
    case 'noted':
      return event.text
    case 'ready':
      return ready(event, natsCli)
    case 'ended':
      return `${event.name} (pid ${event.pid}) has ended: ${event.how}${event.lastWords === '' ? '' : `; its last line: ${short(event.lastWords)}`}`
    case 'restarted':
      return `${event.name} runs again as pid ${event.pid}`
    case 'stopping':
      return 'stopping …'
    case 'stopped':
      return 'stopped; no process is left'
  }
}

function ready({ plan, processes, runs, late }: UpEvent & { event: 'ready' }, natsCli: string): string {
  const edge = plan.edgeUrls[0] ?? 'http://127.0.0.1:8080'
  const run = runs[0] ?? 'mine'
  const agent = plan.agentUrl === null ? 'http://127.0.0.1:9000/jobs/1/stream' : demoStream(plan.agentUrl, 'mine')
  return [
    '',
    ...table(processes),
    '',
    `NATS     ${plan.natsUrl}`,
    `Console  ${edge}/`,
    ...(late.length === 0 ? [] : ['', `Not ready yet: ${late.join(', ')}; see .baton/logs/`]),
    '',
    'To paste:',
    `  curl -N ${edge}/runs/${run}/events`,
    `  curl -X POST ${edge}/runs -H 'content-type: application/json' -d '{"run":"mine","url":"${agent}"}'`,
    `  ${natsCli} -s ${plan.natsUrl} sub 'live.run.*'`,
    '',
    'Ctrl-C stops all of it. Kill any of the processes and see what happens.',
  ].join('\n')
}

function table(processes: readonly Running[]): string[] {
  const width = Math.max(...processes.map(({ name }) => name.length))
  return processes.map(({ name, pid, url }) => `${name.padEnd(width)}  pid ${String(pid ?? '-').padEnd(7)} ${url}`)
}

const short = (line: string): string => (line.length > 300 ? `${line.slice(0, 300)}…` : line)
