import { check } from '../kit/checker.ts'
import { eventually } from '../kit/eventually.ts'
import type { Violation } from '../kit/history.ts'
import { OVERLAP_MS } from '../kit/judge.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { System } from '../kit/system.ts'

const RUN = 'provoked'
const KEPT = 1500

/**
 * One of two jobs is silent until nothing of it is left in the log, which keeps little; then the owner is killed. Where
 * that job stands only the checkpoint says.
 */
export async function silentBeyondTheLog(source?: string): Promise<Violation[]> {
  const own = source === undefined ? {} : { source }
  await using system = await System.start({
    relays: 2,
    edges: 1,
    environment: { BATON_RUN_EVENTS: String(KEPT) },
    ...own,
  })
  await using recorder = await LogRecorder.start(system.natsUrl)
  const quiet = system.agents.job('quiet', { events: 20, perSecond: 50, pause: { after: 10, ms: 9000 } })
  const busy = system.agents.job('busy', { events: 5000, perSecond: 500 })
  const jobs = [quiet, busy].map(({ url }, at) => ({ job: `job-${at}`, url }))
  await system.register(RUN, { jobs })
  const head = async () => (await system.show(RUN)).head?.index ?? 0
  await eventually('nothing of the quiet job is kept', async () => (await head()) > 2 * KEPT, { withinMs: 30_000 })
  await (await system.owner(RUN)).child.kill()
  const ended = async () => (await system.show(RUN)).state === 'ended'
  await eventually('the run has ended', ended, { withinMs: 60_000 })
  // That the log forgets is meant here; what was recorded of it while it grew is whole.
  const { logs } = await recorder.end()
  const emissions = [await quiet.emission('job-0'), await busy.emission('job-1')]
  const history = { run: RUN, jobs: emissions, log: logs.get(RUN) ?? [], clients: [], over: true }
  return check(history, { overlapMs: OVERLAP_MS, nowMs: Date.now(), ownersKnown: false })
}
