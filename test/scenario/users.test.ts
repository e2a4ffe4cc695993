import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readAlert } from '@baton/store/alerts'
import { readBusy } from '@baton/store/heartbeats'
import { batonAnswer } from '../kit/baton.ts'
import { eventually } from '../kit/eventually.ts'
import { HandAgent } from '../kit/hand-agent.ts'
import { expectPromises } from '../kit/judge.ts'
import { startWatchdog } from '../kit/process.ts'
import { LogRecorder } from '../kit/read-log.ts'
import { SseClient } from '../kit/sse-client.ts'
import { System } from '../kit/system.ts'
import { Webhook } from '../kit/webhook.ts'

/** Everything a process does, each with the user of its role: the server says of every right that it lacks. */

const environment = {
  BATON_QUIET_MS: '1000',
  BATON_DISCONNECT_MS: '1500',
  BATON_STALL_MS: '3000',
  BATON_ORPHAN_MS: '3000',
  BATON_LIVENESS_TTL_MS: '2000',
  BATON_PROGRESS_TTL_MS: '4000',
  BATON_HEARTBEAT_WRITE_MS: '100',
  BATON_CLAIM_TTL_MS: '5000',
  BATON_CLAIM_RENEW_MS: '1500',
}

let system: System
beforeAll(async () => {
  system = await System.start({ relays: 2, edges: 2, nats: { users: true }, environment })
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

describe('each process with the user of its role', () => {
  test('I1 I2 I3 I6: a run is registered, relayed, followed, taken over by notice, and ended', async () => {
    const run = 'handed-over'
    await using recorder = await LogRecorder.start(system.natsUrl)
    const job = system.agents.job(run, { events: 600, perSecond: 100 })
    await system.register(run, { url: job.url })
    await using client = system.follow(run)
    await client.untilEvents(100)
    const owner = await system.owner(run)
    const successor = system.relays.find((relay) => relay !== owner)
    await owner.child.kill()
    await client.done
    const log = (await recorder.finish()).get(run)
    await expectPromises(system, run, { jobs: [await job.emission()], clients: [client], log: log ?? [] })
    const figures = await (await fetch(`${successor?.url}/metrics`)).text()
    expect(figures).toMatch(/^baton_relay_peers_dead_total\{how="notice"\} 1$/m)
    await eventually('the run is shown as ended', async () => (await system.show(run)).state === 'ended')
    await system.heal()
    system.expectNoRefusal()
  })

  test('a relay claims, renews, appends in batches, says how busy its agent is, gives runs away, drains', async () => {
    const runs = ['balanced-1', 'balanced-2', 'balanced-3', 'balanced-4']
    for (const run of runs) {
      const { url } = system.agents.job(run, { events: 2000, perSecond: 0, ends: false })
      await system.register(run, {
        jobs: [
          { job: 'one', url },
          { job: 'two', url: `${url}&again=1` },
        ],
      })
    }
    for (const run of runs) {
      await eventually(`${run} is stored`, async () => ((await system.show(run)).head?.index ?? 0) >= 4000)
    }
    // Renewed a few times, its claims live on.
    await eventually('the claims outlive their time', async () => {
      const claims = await Promise.all(runs.map((run) => system.claim(run)))
      return claims.every((claim) => claim !== null && Date.now() - Date.parse(claim.since) > 6000)
    })
    await using agent = await HandAgent.start()
    await system.register('busy', { url: agent.url })
    agent.say('busy', { until: Date.now() + 60_000 })
    await eventually('its word is kept', async () => (await readBusy(system.store, 'busy')) !== null)
    const [first, second] = system.relays
    expect(await first?.child.terminate()).toEqual({ code: 0, signal: null })
    for (const run of runs) expect((await system.claim(run))?.relay).toBe(second?.name)
    await first?.restart()
    // Which of them it is given is nobody's promise.
    const hasItsShare = async () => {
      const claims = await Promise.all([...runs, 'busy'].map((run) => system.claim(run)))
      return claims.filter((claim) => claim?.relay === first?.name).length >= 2
    }
    await eventually('the relay that came back is given its share', hasItsShare, { withinMs: 60_000 })
    for (const run of runs) await system.post(`/runs/${run}/cancel`, {})
    for (const run of runs) {
      await eventually(`${run} is cancelled`, async () => (await system.show(run)).end?.reason === 'cancelled')
    }
    system.expectNoRefusal()
  })

  test('an edge serves runs, sets of runs, histories, topics, wildcards and what is published to them', async () => {
    const runs = ['shown-1', 'shown-2']
    for (const run of runs) {
      await system.register(run, { url: system.agents.job(run, { events: 40, perSecond: 20 }).url })
    }
    const both = runs.map((run) => `run=${run}`).join('&')
    await using set = new SseClient({ urls: [system.edgeUrl(`/runs/events?${both}&from=start`)] })
    await using wild = new SseClient({ urls: [system.edgeUrl('/topics/events?topic=orders.*&topic=labels.>', 1)] })
    await using single = new SseClient({ urls: [system.edgeUrl('/topics/events?topic=orders.1')] })
    for (const client of [wild, single]) await client.until('stream.open', (frame) => frame.event === 'stream.open')
    const publish = await fetch(system.edgeUrl('/topics/orders.1'), {
      method: 'POST',
      body: 'paid',
      headers: { 'idempotency-key': 'k1' },
    })
    expect(publish.status).toBe(201)
    const batch = Array.from({ length: 30 }, (_, n) => ({ topic: `labels.${n}.x`, data: n }))
    expect((await system.post('/topics', batch)).status).toBe(201)
    await single.until('the one', (frame) => frame.data === 'paid')
    await wild.until('the last of the batch', (frame) => frame.data === '29')
    await using replayed = new SseClient({
      urls: [system.edgeUrl('/topics/events?topic=orders.1&topic=labels.>&from=-20')],
    })
    await replayed.until('the replayed end', (frame) => frame.data === '29')
    expect((await fetch(system.edgeUrl('/topics/orders.1'))).status).toBe(200)
    await set.until('the ends of both', () => set.frames.filter(({ event }) => event === 'stream.end').length === 2)
    const history = await fetch(system.edgeUrl('/runs/shown-1/history?limit=10'))
    expect(((await history.json()) as { events: unknown[] }).events).toHaveLength(10)
    expect((await fetch(system.edgeUrl('/runs?state=ended'))).status).toBe(200)
    const relays = (await (await fetch(system.edgeUrl('/relays'))).json()) as { relay: string }[]
    expect(relays.map(({ relay }) => relay)).toEqual(expect.arrayContaining(['relay-1', 'relay-2']))
    expect((await fetch(system.edgeUrl('/runs/nobody'))).status).toBe(404)
    system.expectNoRefusal()
  })

  test('an operator sees runs, relays and alerts, publishes, adds, cancels, and drains a relay', async () => {
    const url = system.nats.urlOf('operator')
    const answer = async (...args: string[]) => {
      const { code, output } = await batonAnswer(url, args)
      expect(code, output).toBe(0)
      return output
    }
    const { url: stream } = system.agents.job('operated', { events: 3, perSecond: 20 })
    await answer('runs', 'add', stream, '--run', 'operated')
    expect(await answer('runs', 'watch', 'operated')).toMatch(/ended \(completed\)/)
    expect(await answer('runs', 'ls')).toContain('operated')
    expect(await answer('runs', 'show', 'operated')).toContain('completed')
    await answer('runs', 'cancel', 'operated')
    expect(await answer('publish', 'orders.9', 'paid')).toContain('orders.9')
    await answer('alerts')
    expect(await answer('relays')).toMatch(/relay-1[^]*relay-2/)
    await answer('setup', '--dry-run')
    expect(await answer('drain', 'relay-1')).toContain('and is gone')
    expect(await system.relays[0]?.child.exited).toEqual({ code: 0, signal: null })
    await system.heal()
    system.expectNoRefusal()
  })

  test('a watchdog judges, tells the webhook, and ends an orphan', async () => {
    await using webhook = await Webhook.start()
    const own = { ...environment, BATON_ON_ORPHAN: 'fail', BATON_WEBHOOK_URL: webhook.url }
    await using dog = await startWatchdog('watchdog', { natsUrl: system.nats.urlOf('watchdog'), environment: own })
    // Nobody is there to connect to.
    await system.register('orphan', { url: 'http://127.0.0.1:9/stream' })
    await eventually('it is ended', async () => (await system.show('orphan')).end?.reason === 'orphaned', {
      withinMs: 60_000,
    })
    await eventually('the webhook has heard of it', () =>
      webhook.received.some(({ alert }) => alert.run === 'orphan' && alert.verdict === 'ended'),
    )
    expect((await readAlert(system.store, 'orphan')).alert).toMatchObject({ previous: 'orphaned', verdict: 'ended' })
    expect(await dog.child.terminate()).toEqual({ code: 0, signal: null })
    system.expectNoRefusal()
  })
})
