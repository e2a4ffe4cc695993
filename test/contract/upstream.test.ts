import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { advance, EMPTY_CHECKPOINT } from '@baton/core/cursor'
import { GAP, type StoredEvent } from '@baton/core/event'
import { FRESH_CURSOR, type Checkpoint } from '@baton/core/records'
import { parseRegistration } from '@baton/core/run'
import { createLog } from '@baton/service/log'
import { startAgent, type Agent } from '../../apps/agent/src/agent.ts'
import { emittedEvent, lastEvent } from '../../apps/agent/src/emission.ts'
import { parseJobOptions } from '../../apps/agent/src/job-options.ts'
import { tailJob, type JobOutcome } from '../../apps/relay/src/tail-job.ts'
import { createUpstream, type Upstream } from '../../apps/relay/src/upstream.ts'

/** The relay's tail against the scripted agent, with an array for a log: no NATS, every kind of agent. */
const TERMINAL = ['done']
let agent: Agent
let upstream: Upstream

beforeAll(async () => {
  agent = await startAgent({ port: 0, log: null })
  const limits = { silenceMs: 1_800_000, giveUpMs: 0, maxEventBytes: 5000 }
  upstream = createUpstream({ allow: ['127.0.0.0/8'], secrets: new Map(), ...limits })
})
afterAll(async () => {
  await upstream.agent.destroy()
  await agent.close()
})

/** A job's log, and owners that follow each other: each knows only the log. */
class Tailed {
  readonly log: StoredEvent[] = []
  #cursors: Checkpoint = EMPTY_CHECKPOINT
  readonly #name: string
  readonly #url: string
  readonly #resume: string

  constructor(name: string, query: string, resume: string) {
    this.#name = name
    this.#url = `${agent.url}/jobs/${name}/stream?${query}`
    this.#resume = resume
  }

  /** One owner, until the job is over (then its outcome) or `events` more are stored (then null). */
  async own(events = Infinity): Promise<JobOutcome | null> {
    const parsed = parseRegistration(this.#name, { url: this.#url, resume: this.#resume })
    if (!parsed.ok) throw new Error(parsed.reason)
    const [spec] = parsed.value.jobs
    if (spec === undefined) throw new Error('no job')
    const leave = new AbortController()
    const until = this.log.length + events
    try {
      return await tailJob(
        {
          spec,
          run: this.#name,
          terminalTypes: TERMINAL,
          cursor: this.#cursors.jobs[spec.job] ?? FRESH_CURSOR,
          readKept: async (each) => this.log.forEach(each),
          store: async (event) => {
            if (this.log.length >= until) throw leave.signal.reason
            const index = this.log.length + 1
            const stored = { ...event, run: this.#name, index, sequence: index, epoch: 1 }
            this.log.push(stored)
            this.#cursors = advance(this.#cursors, stored, TERMINAL)
            if (this.log.length === until) leave.abort(new Error('another owner'))
          },
          onAlive: () => undefined,
          onState: () => undefined,
          onFailing: () => undefined,
          failingSinceMs: null,
          doubtfulSinceMs: null,
          upstream,
          log: createLog('test', 'silent'),
        },
        leave.signal,
      )
    } catch (error) {
      if (leave.signal.aborted) return null
      throw error
    }
  }
}

let jobs = 0

/** Tails a job over three owners to its end. */
async function tailed(query: string, resume: string) {
  const name = `job-${++jobs}`
  const job = new Tailed(name, query, resume)
  for (const events of [9, 14]) expect(await job.own(events)).toBeNull()
  const outcome = await job.own()
  const options = parseJobOptions(new URLSearchParams(query))
  const emitted = Array.from({ length: lastEvent(options) }, (_, at) => emittedEvent(name, options, at + 1))
  return { log: job.log, outcome, emitted }
}

const completed = { reason: 'completed', detail: null }
const content = ({ name, data }: { name: string | null; data: string }) => ({ name, data })

describe.concurrent('I1: the log is the emission', () => {
  test.for([
    ['auto', 'mode=id'],
    ['auto', 'mode=id&idEvery=3'],
    ['auto', 'mode=id&idEvery=7&idRepeat=2'],
    ['auto', 'mode=id&eol=crlf&slice=1'],
    ['auto', 'mode=id&eol=cr&slice=3&garbageEvery=2'],
    ['auto', 'mode=id&garbageEvery=1&commentMs=5&pingMs=7'],
    ['auto', 'mode=id&encoding=gzip'],
    ['auto', 'mode=id&idRestart=1000&size=600'],
    ['auto', 'mode=id&answers=stream,503,stream,404,redirect'],
    ['auto', 'mode=id&idEvery=0'],
    ['auto', 'mode=replay'],
    ['auto', 'mode=replay&idEvery=0'],
    ['auto', 'mode=replay&idEvery=3&eol=crlf'],
    ['auto', 'mode=replay&script=demo&commentMs=0'],
    ['auto', 'mode=window&window=50'],
    ['auto', 'mode=window&window=50&idEvery=0'],
    ['auto', 'mode=window&window=50&idEvery=3'],
    ['last-event-id', 'mode=id'],
    ['last-event-id', 'mode=id&idEvery=3'],
    ['last-event-id', 'mode=id&idEvery=0'],
    ['replay', 'mode=replay'],
    ['replay', 'mode=replay&idEvery=0'],
    ['replay', 'mode=window&window=50'],
    ['auto', 'script=demo&mode=id&commentMs=0'],
  ] as const)('mode %s, an agent of %s, cut after every few events', async ([resume, query], { expect }) => {
    const cut = query.includes('mode=id') && !query.includes('idEvery=0') ? '&cutAfter=19' : ''
    const { log, outcome, emitted } = await tailed(`${query}&count=60&everyMs=8${cut}`, resume)
    expect(outcome).toEqual(completed)
    expect(log.map(content)).toEqual(emitted.map(content))
    expect(log.map(({ ordinal }) => ordinal)).toEqual(emitted.map((_, at) => at + 1))
  })

  test('but for what is too large: each is one gap', async ({ expect }) => {
    const { log, emitted } = await tailed('mode=replay&idEvery=0&count=60&everyMs=8&bigEvery=6&bigBytes=6000', 'auto')
    const wanted = emitted.map((event) => (event.data.length > 5000 ? GAP : event.data))
    expect(log.map(({ type, data }) => (type === GAP ? GAP : data))).toEqual(wanted)
  })
})

describe.concurrent('where that cannot be, every hole is one gap', () => {
  test.for([
    ['none', 'mode=none', 'no-replay'],
    ['auto', 'mode=none&idEvery=0', 'no-replay'],
    ['replay', 'mode=window&window=2', 'window'],
  ] as const)('mode %s, an agent of %s', async ([resume, query, reason], { expect }) => {
    const { log, outcome, emitted } = await tailed(`${query}&count=200&everyMs=8&cutAfter=25`, resume)
    expect(outcome?.reason).toBe('completed')
    const datas = emitted.map(({ data }) => data)
    let [next, gaps] = [datas.indexOf(log[0]?.data ?? ''), 0]
    for (const [at, event] of log.entries()) {
      if (event.type === GAP) {
        expect(JSON.parse(event.data)).toEqual({ job: 'main', reason, lost: null })
        gaps++
        continue
      }
      const place = datas.indexOf(event.data)
      if (log[at - 1]?.type === GAP) expect(place).toBeGreaterThanOrEqual(next)
      else expect(place).toBe(next)
      next = place + 1
    }
    // How many cuts the emission lasts for is the clock's affair.
    expect(gaps).toBeGreaterThan(0)
  })

  test('an agent that says something else each time has diverged', async ({ expect }) => {
    const { log } = await tailed('mode=replay&nondeterministic=1&count=40&everyMs=8', 'auto')
    const gaps = log
      .filter(({ type }) => type === GAP)
      .map(({ data }) => (JSON.parse(data) as { reason: string }).reason)
    expect(gaps).toEqual(['diverged', 'diverged'])
    expect(log.at(-1)?.type).toBe('done')
    expect(log.at(-1)?.ordinal).toBe(41)
  })
})
