import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pause } from '@baton/service/sleep'
import { shownServers } from '@baton/store/nats-url'
import { Child, type ChildSpec } from './child.ts'
import { dataInUse } from './data-in-use.ts'
import { endDemo, keepDemo, type DemoDeps } from './demo.ts'
import { isNats, natsFolders, plan, type Addresses, type Place, type Plan, type UpOptions } from './plan.ts'
import { isReady } from './ready.ts'

/** What happened, for a person or for a program. */
export type UpEvent =
  | { readonly event: 'noted'; readonly text: string }
  | {
      readonly event: 'ready'
      readonly addresses: Addresses
      readonly processes: readonly Running[]
      /** Of the demo; empty without one, and while its runs are not registered. */
      readonly runs: readonly string[]
      readonly late: readonly string[]
      readonly dataFolder: string
    }
  | {
      readonly event: 'ended'
      readonly name: string
      readonly pid: number
      readonly how: string
      readonly lastWords: string
    }
  | { readonly event: 'restarted'; readonly name: string; readonly pid: number }
  | { readonly event: 'stopping' }
  | { readonly event: 'stopped' }

export type Running = { readonly name: string; readonly pid: number | null; readonly url: string }

const READY_MS = 20_000
/** A start that takes longer says what it waits for. */
const SLOW_MS = 5000
const DATA_FREE_MS = 7000
/** Beyond the grace period of the apps themselves: what still lives then is stuck. */
const STOP_MS = 30_000

/**
 * Runs the whole system on this machine until `stop` aborts; then ends it in order: first what reads and writes, last
 * the NATS server they need for that. `now` cuts the waiting short.
 */
export async function up(
  options: UpOptions,
  place: Place,
  say: (event: UpEvent) => void,
  now: AbortSignal,
  stop: AbortSignal,
): Promise<void> {
  const { dataFolder } = options
  for (const folder of options.natsUrl === null ? natsFolders(options) : []) {
    mkdirSync(folder, { recursive: true })
    const pid = await dataInUse(folder, DATA_FREE_MS, stop)
    if (pid === null) continue
    throw new UpError(
      `the data in ${folder} is in use by nats-server ${pid}: stop that one, or give --data another folder`,
    )
  }
  mkdirSync(join(dataFolder, 'logs'), { recursive: true })
  const planned = await plan(options, place)
  for (const text of planned.notes) say({ event: 'noted', text })

  const reaper = startReaper(place)
  const children = planned.children.map((spec) => new Child(emptied(spec), listener(say, reaper, stop)))
  const kept = children.map((child) => child.keep())
  let demo: { readonly deps: DemoDeps; readonly runs: ReadonlySet<string> } | null = null
  try {
    const onSlow = (names: string[]) =>
      say({ event: 'noted', text: `waiting for ${names.join(', ')} (logs: ${dataFolder}/logs/) …` })
    const late = await waitUntilReady(planned, onSlow, stop)
    const ready = (runs: string[]) => {
      if (stop.aborted) return
      say({
        event: 'ready',
        addresses: shown(planned.addresses),
        processes: children.map(running),
        runs,
        late,
        dataFolder,
      })
    }
    const { agentUrl, edgeUrls } = planned.addresses
    // Late parts are said to be late, not waited for: a person must see what is wrong.
    if (agentUrl === null || edgeUrls.length === 0 || late.length > 0) ready([])
    if (agentUrl !== null) {
      const prefix = `demo-${Math.floor(Date.now() / 1000).toString(36)}`
      const token = place.env['BATON_TOKEN'] ?? null
      const refused = () => {
        say({
          event: 'noted',
          text: 'the edges refuse the runs of the demo: BATON_TOKEN must be a token that may manage run:*',
        })
        ready([])
      }
      const deps = { agentUrl, edgeUrls, prefix, token }
      demo = { deps, runs: await keepDemo(deps, ready, refused, stop) }
    }
    await untilAborted(stop)
  } finally {
    say({ event: 'stopping' })
    if (demo !== null) await endDemo(demo.deps, demo.runs, now)
    const end = (some: Child[]) => Promise.all(some.map((child) => child.stop(STOP_MS, now)))
    await end(children.filter(({ spec }) => !isNats(spec)))
    await end(children.filter(({ spec }) => isNats(spec)))
    await Promise.all(kept)
    reaper.end()
    say({ event: 'stopped' })
  }
}

/** A terminal is read by others, and what is written as JSON is kept by them. */
const shown = (addresses: Addresses): Addresses => ({ ...addresses, natsUrl: shownServers(addresses.natsUrl) })

/** A reason a person can act on. */
export class UpError extends Error {
  override readonly name = 'UpError'
}

const running = (child: Child): Running => ({ name: child.spec.name, pid: child.pid, url: child.spec.url })

/** Each `baton up` starts its logs anew; the restarts of one are in the same file. */
function emptied(spec: ChildSpec): ChildSpec {
  writeFileSync(spec.logFile, '')
  return spec
}

function listener(say: (event: UpEvent) => void, reaper: Reaper, stop: AbortSignal) {
  const started = new Set<string>()
  return {
    onStart({ name }: ChildSpec, pid: number) {
      reaper.tell(`+${pid}`)
      if (started.has(name)) say({ event: 'restarted', name, pid })
      started.add(name)
    },
    onEnd({ name }: ChildSpec, pid: number, how: string, lastWords: string) {
      if (pid > 0) reaper.tell(`-${pid}`)
      if (!stop.aborted) say({ event: 'ended', name, pid, how, lastWords })
    },
  }
}

/** The names of those that were not ready in time: they are being started still, and are said to be late. */
async function waitUntilReady(planned: Plan, onSlow: (names: string[]) => void, stop: AbortSignal): Promise<string[]> {
  const waiting = new Set(planned.children.map(({ name }) => name))
  const slow = setTimeout(() => stop.aborted || onSlow([...waiting]), SLOW_MS)
  await Promise.all(
    planned.children.map(
      async ({ name, readyUrl }) => (await isReady(readyUrl, READY_MS, stop)) && waiting.delete(name),
    ),
  )
  clearTimeout(slow)
  return [...waiting]
}

type Reaper = { tell(line: string): void; end(): void }

function startReaper(place: Place): Reaper {
  const script = join(import.meta.dirname, 'reaper.ts')
  const process = spawn(place.node, [script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  process.unref()
  // Without it the system runs as well; only a kill -9 of this process would leave the parts alive.
  process.on('error', () => undefined)
  process.stdin.on('error', () => undefined)
  return {
    tell: (line) => void process.stdin.write(`${line}\n`),
    end: () => void process.stdin.end(),
  }
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  // An hour at a time: the timer keeps the process alive, the signal ends the wait.
  while (!signal.aborted) await pause(3_600_000, signal)
}
