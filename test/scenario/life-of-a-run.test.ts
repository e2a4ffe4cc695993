import { expect } from 'vitest'
import { BUCKET } from '@baton/store/names'
import { deleteKey, readKeyAtLeader, writeKey } from '@baton/store/bucket'
import type { Nats } from '@baton/store/connect'
import { readStatus } from '@baton/store/registry'
import { eventually, steadily } from '../kit/eventually.ts'
import { expectPromises } from '../kit/judge.ts'
import { testWithSystem } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1 })

test('a run is registered, cancelled, ended, and its id never stands for another', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 10_000, perSecond: 50 })
  const body = { run, url: job.url, cancel: job.cancelUrl }
  expect((await system.post('/runs', body)).status).toBe(201)
  expect((await system.post('/runs', body)).status).toBe(200)
  expect((await system.post('/runs', { ...body, labels: { team: 'a' } })).status).toBe(409)
  const client = system.follow(run)
  await client.untilEvents(20)

  expect((await system.post(`/runs/${run}/cancel`, {})).status).toBe(202)
  const end = await client.until('stream.end', (frame) => frame.event === 'stream.end')
  expect(JSON.parse(end.data ?? '')).toMatchObject({ reason: 'cancelled' })
  await client.done
  await eventually('the agent was asked to stop', async () => (await job.cancels()) === 1)
  const shown = await eventually('the run is shown as ended', async () => {
    const now = await system.show(run)
    return now.state === 'ended' ? now : null
  })
  expect(shown).toMatchObject({
    end: { reason: 'cancelled' },
    owner: null,
    jobs: [{ job: 'main', state: 'cancelled' }],
  })

  expect((await system.post(`/runs/${run}/cancel`, {})).status).toBe(200)
  expect((await system.post('/runs', body)).status).toBe(409)
  const emission = await job.emission()
  const stored = client.events.length - 1
  await expectPromises(system, run, {
    jobs: [{ ...emission, events: emission.events.slice(0, stored) }],
    clients: [client],
  })
})

const wishes: [string, (nats: Nats, run: string) => Promise<unknown>][] = [
  ['a key deleted from the registry', (nats, run) => deleteKey(nats, BUCKET.runs, run)],
  ['a record of nothing but "cancel": true', (nats, run) => writeKey(nats, BUCKET.runs, run, '{"cancel":true}')],
]
test.for(wishes)('%s cancels the run', async ([, wish], { system, run }) => {
  const job = system.agents.job(run, { events: 10_000, perSecond: 50 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.untilEvents(5)
  await wish(system.store, run)
  const end = await client.until('stream.end', (frame) => frame.event === 'stream.end')
  expect(JSON.parse(end.data ?? '')).toMatchObject({ reason: 'cancelled' })
  await client.done
  const status = await eventually('the run is ended', async () => {
    const now = await readStatus(system.store, run)
    return now?.state === 'ended' ? now : null
  })
  expect(status.jobs).toEqual([{ job: 'main', state: 'cancelled', reason: null, failingSince: null }])
})

test('a registry record that is not valid is reported and harms no other run', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 100, perSecond: 50 })
  const records = [
    'not json',
    '[]',
    '{"url":"ftp://x"}',
    '{"url":"http://127.0.0.1:1/","lables":{}}',
    '{"jobs":[]}',
    'null',
    '',
  ]
  for (const [at, record] of records.entries()) await writeKey(system.store, BUCKET.runs, `bad-${at}`, record)
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.done
  await expectPromises(system, run, { jobs: [await job.emission()], clients: [client] })
  const shown = await system.show('bad-2')
  expect(shown.state).toBe('invalid')
  expect(shown.reason).toMatch(/url/)
  expect(await readStatus(system.store, 'bad-2')).toBeNull()
  for (const relay of system.relays) expect(relay.child.exit).toBeNull()
})

test('an agent that fails for good fails its run, with the reason, and no other', async ({ system, run }) => {
  const good = system.agents.job(`${run}-good`, { events: 100, perSecond: 50 })
  await system.register(run, { url: `${system.agents.url}/no-such-path`, terminalTypes: ['done'] })
  await system.register(`${run}-good`, { url: good.url })
  const client = system.follow(`${run}-good`)
  await client.done
  await expectPromises(system, `${run}-good`, { jobs: [await good.emission()], clients: [client] })
  // 404 is retried for 30 s, for deploys answer so; then it is final.
  const failed = system.follow(run)
  const end = await failed.until('stream.end', (frame) => frame.event === 'stream.end', 60_000)
  expect(JSON.parse(end.data ?? '')).toMatchObject({ reason: 'failed' })
  await failed.done
  expect((await system.show(run)).jobs[0]).toMatchObject({
    state: 'failed',
    reason: expect.stringMatching(/404/) as string,
  })
})

test('the claim of an ended run is given up, and its records live no longer than its log', async ({ system, run }) => {
  const job = system.agents.job(run, { events: 10, perSecond: 100 })
  await system.register(run, { url: job.url })
  const client = system.follow(run)
  await client.done
  await eventually('nobody holds the run', async () => (await system.claim(run)) === null)
  for (const bucket of [BUCKET.runs, BUCKET.status]) {
    expect((await readKeyAtLeader(system.store, bucket, run)).value).not.toBeNull()
    const message = await system.store.jsm.streams.getMessage(`KV_${bucket}`, { last_by_subj: `$KV.${bucket}.${run}` })
    expect(message?.header.get('Nats-TTL')).toBe('604800s')
  }
  const owners = (await system.log(run)).filter((entry) => entry.kind === 'owner')
  expect(owners).toHaveLength(1)
  await steadily('the ended run stays without an owner', async () => (await system.claim(run)) === null, 1000)
})
