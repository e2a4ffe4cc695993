import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BatonError } from '@baton/core/errors'
import { readKeyAtLeader, writeKey } from '@baton/store/bucket'
import { releaseClaim, writeClaim } from '@baton/store/claim-store'
import { expireRegistration, register, requestCancel, writeStatus } from '@baton/store/registry'
import { parseRegistration } from '@baton/core/run'
import { BUCKET, cursorSubject, ownerSubject, runSubject, STREAM } from '@baton/store/names'
import {
  append,
  assertOwner,
  readEvents,
  readOwner,
  readTail,
  sealRecords,
  writeCheckpoint,
} from '@baton/store/write-log'
import { eventually } from '../kit/eventually.ts'
import { LogServer } from '../kit/log-server.ts'
import { runEvent } from '../kit/write-events.ts'

let log: LogServer
beforeAll(async () => {
  log = await LogServer.start()
})
afterAll(() => log[Symbol.asyncDispose]())

const owner = { relay: 'a', boot: 'b1', since: '2026-01-01T00:00:00Z' }
const signal = AbortSignal.timeout(60_000)
const code = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof BatonError ? error.code : error),
  )
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => runEvent(from + at))
async function indexes(run: string): Promise<number[]> {
  const found: number[] = []
  for await (const event of readEvents(log.nats, run, 1, signal)) found.push(event.index)
  return found
}

describe('I3: one writer', () => {
  test('an epoch is the sequence of the owner record, won by whoever knew the last one', async () => {
    expect(await readOwner(log.nats, 'one')).toEqual({ sequence: 0, record: null })
    const first = await assertOwner(log.nats, 'one', 0, owner)
    expect(await code(assertOwner(log.nats, 'one', 0, owner))).toBe('conflict')
    const second = await assertOwner(log.nats, 'one', first, owner)
    expect(second).toBeGreaterThan(first)
    expect((await readOwner(log.nats, 'one')).sequence).toBe(second)
  })

  test('an older epoch can append nothing: not one event, not a batch, not a checkpoint', async () => {
    const old = { run: 'fence', epoch: await assertOwner(log.nats, 'fence', 0, owner) }
    await append(log.nats, old, [runEvent(1)], 1000)
    const epoch = await assertOwner(log.nats, 'fence', old.epoch, owner)
    expect(await code(append(log.nats, old, [runEvent(2)], 1000))).toBe('lost')
    expect(await code(append(log.nats, old, range(2, 40), 1000))).toBe('lost')
    expect(await code(writeCheckpoint(log.nats, old, { index: 1, sequence: 1, jobs: {} }))).toBe('lost')
    expect(await code(readTail(log.nats, old))).toBe('lost')
    expect(await indexes('fence')).toEqual([1])
    await append(log.nats, { run: 'fence', epoch }, range(2, 3), 1000)
    expect(await indexes('fence')).toEqual([1, 2, 3])
  })

  test('a fence on a record that is gone says so, and is not loss', async () => {
    const fence = { run: 'gone', epoch: await assertOwner(log.nats, 'gone', 0, owner) }
    await log.nats.jsm.streams.purge(STREAM.runs, { filter: ownerSubject('gone') })
    expect(await code(append(log.nats, fence, [runEvent(1)], 1000))).toBe('vanished')
    expect(await code(readTail(log.nats, fence))).toBe('vanished')
  })
})

describe('appends', () => {
  test('of a thousand events are one write, in order, all or none', async () => {
    const fence = { run: 'batch', epoch: await assertOwner(log.nats, 'batch', 0, owner) }
    await append(log.nats, fence, range(1, 1000), 5000)
    expect(await indexes('batch')).toEqual(Array.from({ length: 1000 }, (_, at) => at + 1))
    expect(await code(append(log.nats, fence, range(1001, 2001), 1000))).toBe('invalid')
    expect((await indexes('batch')).length).toBe(1000)
  })

  test('many runs may open batches at the same instant: what is over the server’s limit is asked again', async () => {
    const runs = Array.from({ length: 80 }, (_, at) => `many-${at}`)
    await Promise.all(
      runs.map(async (run) => {
        const fence = { run, epoch: await assertOwner(log.nats, run, 0, owner) }
        for (;;) {
          const said = await code(append(log.nats, fence, range(1, 50), 5000))
          if (said === 'done') return
          expect(said).toBe('in_flight')
        }
      }),
    )
    for (const run of runs) expect((await indexes(run)).length).toBe(50)
  })

  test('an event larger than the server takes is refused, and nothing else is', async () => {
    const fence = { run: 'large', epoch: await assertOwner(log.nats, 'large', 0, owner) }
    const large = runEvent(1, { data: 'x'.repeat(2 ** 20 + 1) })
    expect(await code(append(log.nats, fence, [large], 1000))).toBe('too_large')
    await append(log.nats, fence, [runEvent(1)], 1000)
    expect(await indexes('large')).toEqual([1])
  })
})

describe('the tail', () => {
  test('has the last event and the checkpoint as of the epoch', async () => {
    const fence = { run: 'tail', epoch: await assertOwner(log.nats, 'tail', 0, owner) }
    expect(await readTail(log.nats, fence)).toEqual({ last: null, checkpoint: null })
    const sequence = await append(log.nats, fence, range(1, 20), 1000)
    const checkpoint = { index: 20, sequence, jobs: {} }
    await writeCheckpoint(log.nats, fence, checkpoint)
    const tail = await readTail(log.nats, fence)
    expect(tail.last).toMatchObject({ index: 20, sequence, run: 'tail', data: 'event 20' })
    expect(tail.checkpoint).toEqual(checkpoint)
  })

  test('has the last event and the epoch also where somebody wrote by hand to the subjects of the run', async () => {
    const run = 'scribbled'
    const first = await assertOwner(log.nats, run, 0, owner)
    const sequence = await append(log.nats, { run, epoch: first }, range(1, 30), 1000)
    await writeCheckpoint(log.nats, { run, epoch: first }, { index: 10, sequence: sequence - 20, jobs: {} })
    for (const subject of [runSubject(run), ownerSubject(run), runSubject(run)]) {
      await log.nats.js.publish(subject, 'garbage')
    }
    const found = await readOwner(log.nats, run)
    expect(found).toEqual({ sequence: sequence + 3, record: null })
    const fence = { run, epoch: await assertOwner(log.nats, run, found.sequence, owner) }
    expect((await readTail(log.nats, fence)).last).toMatchObject({ index: 30, sequence })
    await log.nats.js.publish(cursorSubject(run), 'garbage')
    expect(await readTail(log.nats, fence)).toMatchObject({ last: { index: 30, sequence }, checkpoint: null })
  })

  test('after the end an owner record and a checkpoint are left, each to expire with the log', async () => {
    const first = await assertOwner(log.nats, 'sealed', 0, owner)
    const fence = { run: 'sealed', epoch: await assertOwner(log.nats, 'sealed', first, owner) }
    const sequence = await append(log.nats, fence, range(1, 3), 1000)
    await sealRecords(log.nats, fence, owner, { index: 3, sequence, jobs: {} }, 1000)
    const { sequence: last } = await readOwner(log.nats, 'sealed')
    expect(last).toBeGreaterThan(fence.epoch)
    expect(await code(append(log.nats, fence, [runEvent(4)], 1000))).toBe('lost')
    // When it expires no older record comes back, so no zombie finds a fence that fits.
    await eventually('it expired', async () => (await readOwner(log.nats, 'sealed')).sequence === 0)
    expect(await code(append(log.nats, fence, [runEvent(4)], 1000))).toBe('vanished')
    expect(await code(append(log.nats, { run: 'sealed', epoch: first }, [runEvent(4)], 1000))).toBe('vanished')
  })
})

describe('a claim', () => {
  const claim = { relay: 'a', boot: 'b1', epoch: null, since: '' }

  test('is taken, renewed and given up only by revision', async () => {
    const revision = await writeClaim(log.nats, 'c1', claim, 0, 10_000)
    expect(await code(writeClaim(log.nats, 'c1', { ...claim, boot: 'b2' }, 0, 10_000))).toBe('conflict')
    const renewed = await writeClaim(log.nats, 'c1', claim, revision, 10_000)
    expect(await releaseClaim(log.nats, 'c1', revision)).toBe(false)
    expect(await releaseClaim(log.nats, 'c1', renewed)).toBe(true)
    const gone = await readKeyAtLeader(log.nats, BUCKET.claims, 'c1')
    expect(gone.value).toBeNull()
    await writeClaim(log.nats, 'c1', { ...claim, boot: 'b2' }, gone.revision, 10_000)
  })

  test('expires, and its holder can never renew it afterwards', async () => {
    const revision = await writeClaim(log.nats, 'c2', claim, 0, 1000)
    await eventually('it expired', async () => (await readKeyAtLeader(log.nats, BUCKET.claims, 'c2')).value === null)
    expect(await code(writeClaim(log.nats, 'c2', claim, revision, 1000))).toBe('conflict')
    const mark = await readKeyAtLeader(log.nats, BUCKET.claims, 'c2')
    await writeClaim(log.nats, 'c2', { ...claim, boot: 'b2' }, mark.revision, 1000)
  })
})

test('a key written with a time to live and again without stays: the time belongs to the value', async () => {
  await writeKey(log.nats, BUCKET.heartbeats, 'x.y', '1', { ttlMs: 1000 })
  await writeKey(log.nats, BUCKET.heartbeats, 'x.y', '2')
  await writeKey(log.nats, BUCKET.heartbeats, 'x.z', '1', { ttlMs: 1000 })
  await eventually('it expired', async () => (await readKeyAtLeader(log.nats, BUCKET.heartbeats, 'x.z')).value === null)
  expect((await readKeyAtLeader(log.nats, BUCKET.heartbeats, 'x.y')).value).toBe('2')
})

test('the subject of a run holds its events and nothing else', async () => {
  const info = await log.nats.jsm.streams.info(STREAM.runs, { subjects_filter: runSubject('batch') })
  expect(info.state.subjects?.[runSubject('batch')]).toBe(1000)
})

describe('the registration of an ended run', () => {
  const spec = parseRegistration('over', { url: 'http://127.0.0.1:1/' })
  const ended = {
    state: 'ended',
    end: { reason: 'completed', detail: null },
    relay: 'a',
    boot: 'b1',
    epoch: 1,
    jobs: [],
    since: '',
  } as const

  test('is not written anew by a wish to cancel, and goes with its log', async () => {
    if (!spec.ok) throw new Error(spec.reason)
    await register(log.nats, spec.value)
    await writeStatus(log.nats, 'over', ended, 3000)
    await expireRegistration(log.nats, 'over', 1000)
    expect(await requestCancel(log.nats, 'over')).toBe(true)
    await eventually('it is gone', async () => (await readKeyAtLeader(log.nats, BUCKET.runs, 'over')).value === null)
    // Without the status, a registration that outlived it would ask for the run again.
    expect((await readKeyAtLeader(log.nats, BUCKET.status, 'over')).value).not.toBeNull()
  })
})

test('of a stream that is not there nothing can be said: not even that a key is missing', async () => {
  await using other = await LogServer.start()
  await other.nats.jsm.streams.delete('KV_claims')
  expect(await code(readKeyAtLeader(other.nats, BUCKET.claims, 'r1'))).toBe('unavailable')
})
