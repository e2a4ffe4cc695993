import { demoStream } from './demo.ts'
import type { Addresses } from './plan.ts'
import type { Running, UpEvent } from './up.ts'

/** Where the set-up puts the nats CLI, as it is typed in the checkout. */
export const OWN_NATS_CLI = '.baton/bin/nats'

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
    ...toPaste(addresses, runs[0] ?? null, natsCli).map((line) => `  ${line}`),
    ...forTheCli(addresses),
    '',
    'Ctrl-C stops all of it. Kill any of the processes and see what happens.',
  ].join('\n')
}

/** The lines work in the order they stand in: without a demo there is nothing to follow before it is registered. */
function toPaste({ edgeUrls, agentUrl, natsUrl }: Addresses, run: string | null, natsCli: string | null): string[] {
  const [edge] = edgeUrls
  const url = agentUrl === null ? 'http://127.0.0.1:9000/jobs/mine/stream' : demoStream(agentUrl, 'mine')
  const follow = `curl -N ${edge}/runs/${run ?? 'mine'}/events`
  const register = `curl -X POST ${edge}/runs -H 'content-type: application/json' -d '${JSON.stringify({ run: 'mine', url })}'`
  const ownAgent = agentUrl === null ? '   # url: the stream of your agent' : ''
  const http = run === null ? [`${register}${ownAgent}`, follow] : [follow, register]
  const hint = natsCli === null ? '   # npm run setup brings the nats CLI' : ''
  const sub = `${natsCli ?? OWN_NATS_CLI} -s ${natsUrl} sub 'live.run.*'${hint}`
  return [...(edge === undefined ? [] : http), sub]
}

function forTheCli({ cliEnv }: Addresses): string[] {
  const settings = Object.entries(cliEnv).map(([name, value]) => `${name}=${value}`)
  return settings.length === 0 ? [] : ['', 'Before npx baton in another terminal:', `  export ${settings.join(' ')}`]
}

function table(processes: readonly Running[]): string[] {
  const width = Math.max(...processes.map(({ name }) => name.length))
  return processes.map(({ name, pid, url }) => `${name.padEnd(width)}  pid ${String(pid ?? '-').padEnd(7)} ${url}`)
}

const short = (line: string): string => (line.length > 300 ? `${line.slice(0, 300)}…` : line)
