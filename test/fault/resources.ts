import { readFile, readdir, readlink } from 'node:fs/promises'
import { bucketStream, BUCKET, STREAM } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { order } from './inflict.ts'
import type { World } from './world.ts'

/** What one process holds while nothing is asked of it. */
export type Usage = {
  readonly name: string
  readonly pid: number
  readonly ageMs: number
  readonly rssMiB: number
  readonly sockets: number
  /** Everything open, the sockets among it. */
  readonly files: number
  /** Timers that are set; null for a process that is not ours to ask. */
  readonly timers: number | null
}

/** `consumers`: of NATS, those in use. */
export type Census = { readonly atMs: number; readonly processes: readonly Usage[]; readonly consumers: number }

/** An edge keeps what it follows for some seconds after its last client. */
const CALM_MS = 20_000

/** Counts what every process holds between waves, once it is at rest: as the first count was, or as it stays. */
export async function calmCensus(world: World, first: Census): Promise<Census> {
  // What clients of HTTP keep open for their next request is none of ours.
  for (const { clientDoor } of world.edges) clientDoor?.cut()
  world.gateway.cut()
  const isCalm = ({ processes, consumers }: Census) =>
    consumers <= first.consumers + SLACK.consumers &&
    processes.every(({ name, sockets }) => {
      const base = first.processes.find((one) => one.name === name)?.sockets ?? 0
      return sockets <= base + SLACK.sockets / 2
    })
  return eventually(
    'all is calm',
    async () => {
      const now = await census(world)
      return isCalm(now) ? now : null
    },
    { withinMs: CALM_MS, everyMs: 500 },
  ).catch(() => census(world))
}

/** Counts what every process holds just now. */
export async function census(world: World): Promise<Census> {
  const members = await Promise.all(
    world.members.map(async (member) => ({ ...(await usage(member.app)), timers: await timersOf(member) })),
  )
  const servers = await Promise.all(
    world.servers.map(async ({ name, child }) => usage({ name, pid: child.pid, child })),
  )
  return { atMs: Date.now(), processes: [...members, ...servers], consumers: await consumersInUse(world) }
}

/** Consumers that somebody is at. What a killed process leaves behind NATS forgets after minutes, by itself. */
async function consumersInUse({ store }: World): Promise<number> {
  const inUse = async (stream: string) => {
    const lister = store.jsm.consumers.list(stream)
    let count = 0
    for (let page = await lister.next(); page.length > 0; page = await lister.next()) {
      count += page.filter(({ push_bound: bound, num_waiting: waiting }) => bound || waiting > 0).length
    }
    return count
  }
  const streams = [...Object.values(STREAM), ...Object.values(BUCKET).map(bucketStream)]
  const counts = await Promise.all(streams.map((name) => eventually(`${name} answers`, () => inUse(name))))
  return counts.reduce((sum, count) => sum + count, 0)
}

async function usage(one: { name: string; pid: number; child: { startedAtMs: number } }): Promise<Usage> {
  const { name, pid, child } = one
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const rss = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? NaN)
  const files = await readdir(`/proc/${pid}/fd`)
  const links = await Promise.all(files.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
  const sockets = links.filter((link) => link.startsWith('socket:')).length
  return {
    name,
    pid,
    ageMs: Date.now() - child.startedAtMs,
    rssMiB: Math.round(rss / 1024),
    sockets,
    files: files.length,
    timers: null,
  }
}

async function timersOf(member: World['relays'][number]): Promise<number> {
  const askedAtMs = Date.now()
  await order(member, {})
  return eventually(`${member.app.name} counts`, async () => {
    const answer = JSON.parse(await readFile(`${member.orders}.answer`, 'utf8')) as {
      atMs: number
      alive: Record<string, number>
    }
    return answer.atMs < askedAtMs ? null : (answer.alive['Timeout'] ?? 0)
  })
}

/** How far above the first ones the last ones may be: what differs between two quiet moments of one process. */
const SLACK = { sockets: 12, files: 20, timers: 20, consumers: 4 } as const
/** V8 and Go give memory back late: growth counts from here on, and by this factor. */
const RSS = { factor: 1.5, slackMiB: 64 } as const
/** A young process is still filling what it keeps for good. */
const GROWN_MS = 60_000

/**
 * I8: what the last third of a run's censuses counts is no more than what its first third did, but for slack. Each
 * count is compared by its least: a leak leaves no low moment.
 */
export function checkFlat(all: readonly Census[]): Violation[] {
  const third = Math.max(1, Math.floor(all.length / 3))
  const [first, last] = [all.slice(0, third), all.slice(-third)]
  if (all.length < 3) return []
  const complaints: string[] = []
  const compare = (
    what: string,
    before: readonly number[],
    after: readonly number[],
    most: (base: number) => number,
  ) => {
    const [base, least] = [Math.max(...before), Math.min(...after)]
    if (before.length > 0 && after.length > 0 && least > most(base))
      complaints.push(`${what}: at first ${base}, at last ${least}`)
  }
  compare(
    'consumers',
    first.map(({ consumers }) => consumers),
    last.map(({ consumers }) => consumers),
    (base) => base + SLACK.consumers,
  )
  for (const name of new Set(all.flatMap(({ processes }) => processes.map((one) => one.name)))) {
    const of = (some: readonly Census[], count: (one: Usage) => number | null) =>
      some.flatMap(({ processes }) => processes.filter((one) => one.name === name)).flatMap((one) => count(one) ?? [])
    for (const key of ['sockets', 'files', 'timers'] as const) {
      const count = (one: Usage) => one[key]
      compare(`${name}: ${key}`, of(first, count), of(last, count), (base) => base + SLACK[key])
    }
    const rss = (one: Usage) => (one.ageMs < GROWN_MS ? null : one.rssMiB)
    compare(`${name}: RSS in MiB`, of(first, rss), of(last, rss), (base) => base * RSS.factor + RSS.slackMiB)
  }
  return complaints.map((what) => ({ invariant: 'I8', run: 'all', what }))
}

/** The start, the middle and the end of a run as a table of Markdown. */
export function censusTable(all: readonly Census[]): string {
  const shown = [...new Set([all[0], all[Math.floor(all.length / 2)], all.at(-1)])].filter((one) => one !== undefined)
  const names = shown[0]?.processes.map(({ name }) => name) ?? []
  const cell = ({ processes }: Census, name: string) => {
    const one = processes.find((process) => process.name === name)
    return one === undefined
      ? '-'
      : `${one.rssMiB} MiB, ${one.sockets} sockets, ${one.files} files${one.timers === null ? '' : `, ${one.timers} timers`}`
  }
  const head = ['process', ...shown.map(({ atMs }) => new Date(atMs).toISOString().slice(11, 19))]
  const rows = names.map((name) => [name, ...shown.map((one) => cell(one, name))])
  return [
    head,
    head.map(() => '---'),
    ...rows,
    ['consumers in use', ...shown.map(({ consumers }) => String(consumers))],
  ]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')
}
