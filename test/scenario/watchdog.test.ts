import { createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Verdict } from '@baton/core/judge'
import type { Alert } from '@baton/core/records'
import { writeHeartbeat } from '@baton/store/heartbeats'
import { alertSubject, STREAM } from '@baton/store/names'
import { readStatus } from '@baton/store/registry'
import { eventually, steadily } from '../kit/eventually.ts'
import { HandAgent } from '../kit/hand-agent.ts'
import { startWatchdog, type App } from '../kit/process.ts'
import { System } from '../kit/system.ts'
import { wantRun } from '../kit/want-run.ts'
import { Webhook } from '../kit/webhook.ts'

/**
 * An hour is nine seconds here, and everything else in proportion, as far as a loaded machine allows: the wall clock of a
 * test must leave a healthy run room to look healthy.
 */
const QUIET_MS = 3000
const DISCONNECT_MS = 4000
const HOUR_MS = 9000
const environment = {
  BATON_QUIET_MS: String(QUIET_MS),
  BATON_DISCONNECT_MS: String(DISCONNECT_MS),
  BATON_STALL_MS: String(HOUR_MS),
  BATON_ORPHAN_MS: String(HOUR_MS),
  BATON_LIVENESS_TTL_MS: '12000',
  BATON_PROGRESS_TTL_MS: '10000',
  BATON_HEARTBEAT_WRITE_MS: '100',
  BATON_CLAIM_TTL_MS: '3000',
  BATON_CLAIM_RENEW_MS: '500',
}
const LONG = { withinMs: 60_000, everyMs: 100 }

let system: System
beforeAll(async () => {
  system = await System.start({ relays: 2, edges: 1, environment })
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

let runs = 0

/** A run of an agent that says what the test has it say. */
async function start(over: Readonly<Record<string, unknown>> = {}) {
  const agent = await HandAgent.start()
  const run = `watched-${++runs}`
  await wantRun(system.store, run, { url: agent.url, ...over })
  await eventually(`${run} is tailed`, () => agent.connections > 0, LONG)
  return { agent, run }
}

const watchdog = (over: Readonly<Record<string, string>> = {}, name = 'watchdog'): Promise<App> =>
  startWatchdog(name, { natsUrl: system.nats.url, environment: { ...environment, ...over } })

/** Everything ever told of a run, oldest first. */
async function alerts(run: string): Promise<Alert[]> {
  const found: Alert[] = []
  for (let seq = 1; ;) {
    const query = { seq, next_by_subj: alertSubject(run) }
    const message = await system.store.jsm.direct.getMessage(STREAM.alerts, query).catch(() => null)
    if (message === null) return found
    found.push(message.json<Alert>())
    seq = message.seq + 1
  }
}

const verdicts = async (run: string): Promise<Verdict[]> => (await alerts(run)).map(({ verdict }) => verdict)

/** These changes were told of a run, no others; and the edge, which judges for itself, shows where they led. */
async function told(run: string, ...wanted: Verdict[]): Promise<void> {
  await eventually(
    `${run} is found ${wanted.join(', ')}`,
    async () => {
      const found = await verdicts(run)
      if (found.join() !== wanted.join()) throw new Error(`it was found ${found.join(', ') || 'nothing'}`)
      return true
    },
    LONG,
  )
  await eventually(
    `the edge shows that ${run} is ${wanted.at(-1)}`,
    async () => {
      const shown = await system.show(run)
      if (shown.health !== wanted.at(-1)) throw new Error(JSON.stringify(shown))
      return true
    },
    LONG,
  )
}

const nothingTold = (run: string, forMs: number): Promise<void> =>
  steadily(
    `nothing is told of ${run}`,
    async () => {
      const found = await alerts(run)
      if (found.length > 0) throw new Error(`told of ${run}: ${JSON.stringify(found)}`)
      return true
    },
    forMs,
  )

/** So many more times it has looked at everything. */
async function looks(dog: App, more: number): Promise<void> {
  const done = async () => {
    const figures = await (await fetch(`${dog.url}/metrics`)).text()
    return Number(/^baton_watchdog_sweeps_total\{outcome="done"\} (\d+)$/m.exec(figures)?.[1] ?? 0)
  }
  const before = await done()
  await eventually('it looks again', async () => (await done()) >= before + more, LONG)
}

const isEnded = async (run: string): Promise<boolean> => (await readStatus(system.store, run))?.state === 'ended'

describe.concurrent('every verdict', () => {
  let dog: App
  beforeAll(async () => {
    dog = await watchdog()
  }, 60_000)
  afterAll(() => dog[Symbol.asyncDispose]())

  test('running: of a healthy run nothing is told, not even its end', async () => {
    const { agent, run } = await start()
    await using _ = agent
    using _work = agent.every(200, () => agent.say('output'))
    await nothingTold(run, HOUR_MS + 2000)
    expect((await system.show(run)).health).toBe('running')
    agent.say('done')
    await eventually('it has ended', () => isEnded(run))
    expect((await system.show(run)).health).toBe('ended')
    await nothingTold(run, 2000)
  })

  test('quiet: a healthy tool call of 40 minutes is that, no more, and then it runs again', async () => {
    const { agent, run } = await start()
    await using _ = agent
    using _keepalives = agent.every(300, () => agent.keepalive())
    agent.say('output')
    await delay((HOUR_MS * 40) / 60)
    agent.say('tool_result')
    await told(run, 'quiet', 'running')
    const [quiet, running] = await alerts(run)
    const epochs = (await system.log(run)).filter(({ kind }) => kind === 'owner').map(({ sequence }) => sequence)
    expect(epochs).toContain(quiet?.epoch)
    expect(quiet).toMatchObject({ run, previous: 'running' })
    expect(running).toMatchObject({ run, previous: 'quiet' })
    expect(Date.parse(quiet?.since ?? '')).toBeLessThan(Date.parse(running?.since ?? ''))
  })

  test('stalled: keepalives for more than an hour with no work; its end closes the alert', async () => {
    const { agent, run } = await start()
    await using _ = agent
    using _keepalives = agent.every(300, () => agent.keepalive())
    using _talk = agent.every(700, () => agent.say('thinking'))
    agent.say('output')
    await told(run, 'quiet', 'stalled')
    expect(await isEnded(run)).toBe(false)
    agent.say('done')
    await told(run, 'quiet', 'stalled', 'ended')
  })

  test('an agent without keepalives is not disconnected by being silent', async () => {
    const { agent, run } = await start()
    await using _ = agent
    agent.say('output')
    await told(run, 'quiet')
    await steadily(
      'it is quiet or stalled, no more',
      async () => (await verdicts(run)).every((one) => one === 'quiet' || one === 'stalled'),
      HOUR_MS,
    )
  })

  test('disconnected: its agent is not reached, with its progress still fresh enough; back, it runs', async () => {
    const { agent, run } = await start({ quietMs: 3_600_000, stallMs: 3_600_000, orphanMs: 3_600_000 })
    await using _ = agent
    agent.say('output')
    await delay(1000)
    agent.refuses = true
    agent.cut()
    await told(run, 'disconnected')
    agent.refuses = false
    await told(run, 'disconnected', 'running')
  })

  test('orphaned: no progress for an hour and nobody connected; with the policy `alert` nothing ends it', async () => {
    const { agent, run } = await start({ quietMs: 3_600_000 })
    await using _ = agent
    agent.say('output')
    await delay(1000)
    agent.refuses = true
    agent.cut()
    await told(run, 'disconnected', 'orphaned')
    agent.refuses = false
    await eventually('it is tailed again', () => agent.connections > 0, LONG)
    agent.say('output')
    await told(run, 'disconnected', 'orphaned', 'running')
    expect(await isEnded(run)).toBe(false)
  })

  test('busy until T: nothing is late until then, and after it everything counts from T', async () => {
    const { agent, run } = await start()
    await using _ = agent
    agent.say('output')
    const untilMs = Date.now() + HOUR_MS
    agent.say('busy', { until: new Date(untilMs).toISOString() })
    await nothingTold(run, HOUR_MS - 500)
    await told(run, 'quiet')
    const [quiet] = await alerts(run)
    expect(Date.parse(quiet?.since ?? '')).toBeGreaterThanOrEqual(untilMs + QUIET_MS - 500)
  })

  test('a run’s own thresholds stand before the common ones', async () => {
    const { agent, run } = await start({ quietMs: 3_600_000, stallMs: 3_600_000, orphanMs: 3_600_000 })
    await using _ = agent
    agent.say('output')
    await nothingTold(run, HOUR_MS + 2000)
  })
})

describe('what happens to others is not held against a run', () => {
  beforeEach(() => system.heal(), 60_000)

  test('a run taken over a second ago is as it was: at work, busy, or silent and connected', async () => {
    // So long a takeover may take on a loaded machine, by a relay that has only just started.
    const patienceMs = 10_000
    await using _dog = await watchdog({ BATON_DISCONNECT_MS: String(patienceMs) })
    const working = await start({ quietMs: patienceMs })
    const busy = await start()
    const silent = await start({ quietMs: 3_600_000, stallMs: 3_600_000 })
    await using _w = working.agent
    await using _b = busy.agent
    await using _s = silent.agent
    using _work = working.agent.every(200, () => working.agent.say('output'))
    busy.agent.say('busy', { until: Date.now() + 120_000 })
    // Longer than without a byte a run may be that has no connection.
    await delay(patienceMs + 3000)
    for (const { run } of [working, busy, silent]) {
      const owner = await system.owner(run)
      const { boot } = await eventually('its claim', () => system.claim(run))
      await owner.child.kill()
      await eventually(`${run} is taken over from ${owner.name}`, async () => {
        const claim = await system.claim(run)
        if (claim === null || claim.boot === boot) throw new Error(system.relays.map(({ output }) => output).join('\n'))
        return true
      })
      await owner.restart()
    }
    await nothingTold(working.run, patienceMs + 2000)
    expect(await verdicts(busy.run)).toEqual([])
    expect(await verdicts(silent.run)).toEqual([])
  })

  test('NATS away for a while, a minute or an hour: nobody is judged on what could not be written', async () => {
    await using dog = await watchdog()
    const [busy, thinking] = [await start(), await start()]
    await using _b = busy.agent
    await using _t = thinking.agent
    const work = busy.agent.every(200, () => busy.agent.say('output'))
    thinking.agent.say('output')
    await delay(1000)
    await system.nats.kill()
    await delay(HOUR_MS)
    expect((await fetch(`${dog.url}/livez`)).status).toBe(200)
    await system.nats.start()
    // Its last sign is older than every threshold by now; whether it gave others nobody can know.
    await looks(dog, 2)
    thinking.agent.say('output')
    await nothingTold(busy.run, QUIET_MS + 2000)
    expect(await verdicts(thinking.run)).not.toContain('stalled')
    work[Symbol.dispose]()
    await told(busy.run, 'quiet', 'stalled')
  })

  test('a watchdog that has just started knows nothing about anybody’s silence', async () => {
    const { agent, run } = await start({ quietMs: QUIET_MS })
    await using _ = agent
    agent.say('output')
    await delay(HOUR_MS + 1000)
    await using dog = await watchdog()
    await looks(dog, 2)
    expect(await verdicts(run)).toEqual([])
    await told(run, 'quiet', 'stalled')
    const [quiet, stalled] = await alerts(run)
    // It took a whole threshold of its own for each.
    expect(Date.parse(stalled?.since ?? '') - Date.parse(quiet?.since ?? '')).toBeGreaterThan(HOUR_MS - QUIET_MS - 1500)
  })

  test('three watchdogs, one killed: each change is told once, in the stream, to the webhook and in the log', async () => {
    await using webhook = await Webhook.start()
    const secret = 'between-us'
    const hook = { BATON_WEBHOOK_URL: webhook.url, BATON_WEBHOOK_SECRET: secret }
    const dogs = await Promise.all(['one', 'two', 'three'].map((name) => watchdog(hook, name)))
    await using stack = new AsyncDisposableStack()
    for (const dog of dogs) stack.use(dog)
    const { agent, run } = await start()
    stack.use(agent)
    agent.say('output')
    webhook.refuses = true
    await told(run, 'quiet')
    await eventually('the webhook has refused it', () => webhook.refusals > 0, LONG)
    await dogs[0]?.child.kill()
    webhook.refuses = false
    await told(run, 'quiet', 'stalled')
    // It goes on: what the webhook had refused comes to it late, and nothing more is to be told by then.
    using _work = agent.every(200, () => agent.say('output'))
    await told(run, 'quiet', 'stalled', 'running')
    const ofRun = () => webhook.received.filter(({ alert }) => alert.run === run)
    await eventually('the webhook has heard it all', () => ofRun().length >= 3, LONG)
    expect(ofRun().map(({ alert }) => alert)).toEqual(await alerts(run))
    for (const { body, headers } of ofRun()) {
      expect(headers['baton-signature']).toBe(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
    }
    const logged = () =>
      dogs
        .flatMap((dog) => dog.child.logLines)
        .filter((line) => line['event'] === 'verdict.changed' && line['run'] === run)
        .map((line) => String(line['verdict']))
    await eventually('it is in the log', () => logged().length >= 3)
    expect(logged().sort((one, other) => one.localeCompare(other))).toEqual(['quiet', 'running', 'stalled'])
    expect(dogs.map((dog) => dog.output).join('')).not.toContain(secret)
  })
})

describe('the policy `fail`', () => {
  beforeEach(() => system.heal(), 60_000)

  test('I3: it ends an orphan, and the zombie that had it can write nothing', async () => {
    await using dog = await watchdog({ BATON_ON_ORPHAN: 'fail' })
    const { agent, run } = await start({ quietMs: 3_600_000 })
    await using _ = agent
    using _work = agent.every(200, () => agent.say('output'))
    const owner = await system.owner(run)
    await eventually('its events are stored', async () => (await system.log(run)).length > 5)
    for (const relay of system.relays) relay.child.pause()
    await eventually('it is ended', () => isEnded(run), LONG)
    await told(run, 'disconnected', 'orphaned', 'ended')
    await eventually('its end is settled', async () => (await system.claim(run)) === null)
    const events = async () => (await system.log(run)).filter(({ kind }) => kind === 'event')
    const log = await events()
    expect(log.at(-1)).toMatchObject({ event: { type: 'stream.end', data: expect.stringContaining('"orphaned"') } })
    expect(await readStatus(system.store, run)).toMatchObject({ end: { reason: 'orphaned' }, relay: 'watchdog' })
    for (const relay of system.relays) relay.child.resume()
    await eventually(`${owner.name} has dropped it`, async () =>
      /^baton_relay_runs 0$/m.test(await (await fetch(`${owner.url}/metrics`)).text()),
    )
    await delay(2000)
    expect(await events()).toEqual(log)
    await eventually('nobody holds it', async () => (await system.claim(run)) === null)
    expect(await (await fetch(`${dog.url}/metrics`)).text()).toMatch(
      /^baton_watchdog_orphans_total\{outcome="ended"\} \d+$/m,
    )
  })

  test('it ends an orphan whose owner is well but reaches no agent, and the owner lets it go', async () => {
    await using _dog = await watchdog({ BATON_ON_ORPHAN: 'fail' })
    const { agent, run } = await start({ quietMs: 3_600_000 })
    await using _ = agent
    agent.say('output')
    await eventually('it is stored', async () => (await system.log(run)).length > 1)
    agent.refuses = true
    agent.cut()
    await told(run, 'disconnected', 'orphaned', 'ended')
    const events = (await system.log(run)).filter(({ kind }) => kind === 'event')
    expect(events).toMatchObject([{ event: { type: 'output' } }, { event: { type: 'stream.end', index: 2 } }])
    await eventually('nobody holds it', async () => (await system.claim(run)) === null)
  })

  test('liveness ends nothing and saves nothing: a fresh heartbeat over a dead worker is one, and not the other', async () => {
    await using _dog = await watchdog({ BATON_ON_ORPHAN: 'fail' })
    const [noProgress, noLiveness] = [await start({ quietMs: 3_600_000 }), await start({ quietMs: 3_600_000 })]
    await using _n = noProgress.agent
    await using _l = noLiveness.agent
    for (const { agent } of [noProgress, noLiveness]) agent.say('output')
    await delay(500)
    for (const relay of system.relays) await relay.child.kill()
    // The relays are dead; what is left over the two runs is one fresh heartbeat each.
    const beat = { relay: 'nobody', at: new Date().toISOString(), job: 'main' }
    using _beats = noProgress.agent.every(300, () => {
      void writeHeartbeat(system.store, 'liveness', noProgress.run, beat, 6000).catch(() => undefined)
      void writeHeartbeat(system.store, 'progress', noLiveness.run, beat, 10_000).catch(() => undefined)
    })
    await told(noProgress.run, 'disconnected', 'orphaned', 'ended')
    await told(noLiveness.run, 'disconnected')
    await steadily('it goes on', async () => !(await isEnded(noLiveness.run)), HOUR_MS)
    expect(await verdicts(noLiveness.run)).toEqual(['disconnected'])
    await system.heal()
    await told(noLiveness.run, 'disconnected', 'running')
  })

  test('asked to stop, a watchdog finishes and exits 0', async () => {
    await using dog = await watchdog({ BATON_ON_ORPHAN: 'fail' })
    expect(await dog.child.terminate()).toEqual({ code: 0, signal: null })
  })
})
