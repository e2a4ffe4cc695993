import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '../kit/eventually.ts'
import { System, type SystemOptions } from '../kit/system.ts'
import type { App } from '../kit/process.ts'
import { LiveWatch } from './live-watch.ts'
import { spread, type Row } from './measure.ts'

/** A relay accuses nobody in the first second of its own connection: what is measured is one that has been up. */
const SETTLE_MS = 2000

/** More than balancing moves in that time. */
const BALANCED_AWAY = 40

type Hurt = (owner: App) => Promise<void>

const kill: Hurt = (owner) => owner.child.kill()
const terminate: Hurt = async (owner) => void (await owner.child.terminate())
const freeze: Hurt = async (owner) => owner.child.pause()

/** From the moment a relay is hurt to the first event its successor stores, agents emitting every 10 ms. */
async function takeovers(what: string, hurt: Hurt, rounds: number, options: SystemOptions): Promise<Row> {
  await using system = await System.start({ relays: 2, edges: 1, ...options })
  const watch = new LiveWatch(system.store)
  const run = 'takeover'
  const job = system.agents.job(run, { events: 1_000_000, perSecond: 100 })
  await system.register(run, { url: job.url })
  const samplesMs: number[] = []
  for (let round = 0; round < rounds; round++) {
    await eventually('the run flows', () => watch.epoch(run) > 0)
    await delay(SETTLE_MS)
    const owner = await system.owner(run)
    const epoch = watch.epoch(run)
    const hurtAtMs = Date.now()
    const hurting = hurt(owner)
    const flowsAtMs = await eventually('the run flows again', () => watch.laterThan(run, epoch), { everyMs: 1 })
    samplesMs.push(flowsAtMs - hurtAtMs)
    await hurting
    owner.child.resume()
    await owner.restart()
  }
  watch.close()
  return { what, figures: spread(samplesMs) }
}

/** One relay holds many runs and dies: until the last of them flows at another. */
async function manyTakeovers(what: string, hurt: Hurt, runs: number): Promise<Row> {
  await using system = await System.start({ relays: 2, edges: 1 })
  const [first, second] = system.relays
  if (first === undefined || second === undefined) throw new Error('two relays are needed')
  await second.child.kill()
  const watch = new LiveWatch(system.store)
  // Balancing takes some away while the second relay settles: a few more are made, so that so many are left to lose.
  const names = Array.from({ length: runs + BALANCED_AWAY }, (_, at) => `many-${at}`)
  for (const run of names) {
    const job = system.agents.job(run, { events: 1_000_000, perSecond: 2 })
    await system.register(run, { url: job.url })
  }
  await eventually('all runs flow', () => names.every((run) => watch.epoch(run) > 0), { withinMs: 60_000 })
  await second.restart()
  await delay(SETTLE_MS)
  const owned = (await Promise.all(names.map(async (run) => ({ run, claim: await system.claim(run) })))).filter(
    ({ claim }) => claim?.relay === first.name,
  )
  const before = owned.map(({ run }) => ({ run, epoch: watch.epoch(run) }))
  const hurtAtMs = Date.now()
  const hurting = hurt(first)
  const samplesMs = await eventually(
    'all of them flow again',
    () => {
      const flows = before.map(({ run, epoch }) => watch.laterThan(run, epoch))
      return flows.every((atMs) => atMs !== null) ? flows.map((atMs) => atMs - hurtAtMs) : null
    },
    { withinMs: 60_000, everyMs: 5 },
  )
  await hurting
  watch.close()
  return { what, figures: spread(samplesMs) }
}

export const takeoverBenches = {
  'kill -9, with the disconnect notice': () => takeovers('kill -9, with the disconnect notice', kill, 30, {}),
  'kill -9, without it': () => takeovers('kill -9, without it', kill, 30, { nats: { notices: false } }),
  SIGTERM: () => takeovers('SIGTERM', terminate, 30, {}),
  'paused (SIGSTOP)': () => takeovers('paused (SIGSTOP)', freeze, 10, {}),
  '500 runs on one relay, kill -9': () => manyTakeovers('500 runs on one relay, kill -9', kill, 500),
  '500 runs on one relay, SIGTERM': () => manyTakeovers('500 runs on one relay, SIGTERM', terminate, 500),
}
