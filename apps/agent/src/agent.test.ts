import { readFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createSseParser, type SseItem } from '@baton/sse/parse'
import { startAgent, type Agent } from './agent.ts'
import { dueMs, emittedBy, emittedEvent, firstFor, lastEvent } from './emission.ts'
import { parseJobOptions } from './job-options.ts'

const options = (query: string) => parseJobOptions(new URLSearchParams(query))

describe('the options of a job', () => {
  test('none at all make the demo', () => {
    expect(options('')).toMatchObject({ script: 'demo', terminal: 'done' })
  })

  test('rate is events per second', () => {
    expect(options('rate=50').everyMs).toBe(20)
  })

  test('what is not known or not possible is refused', () => {
    expect(() => options('cuont=3')).toThrow('there is no option cuont')
    expect(() => options('mode=maybe')).toThrow('mode must be one of id, replay, window, none')
    expect(() => options('count=-1')).toThrow('count must be a number, at least 0')
    expect(() => options('answers=503,why')).toThrow('answers: why is none')
  })

  test('an answer may be repeated', () => {
    expect(options('answers=503x2,drop').answers).toEqual(['503', '503', 'drop'])
  })
})

describe('the emission', () => {
  test('is the same each time and never says the same twice', () => {
    const some = options('count=500')
    const events = Array.from({ length: 501 }, (_, at) => emittedEvent('a', some, at + 1))
    expect(events).toEqual(Array.from({ length: 501 }, (_, at) => emittedEvent('a', some, at + 1)))
    expect(new Set(events.map(({ data }) => data)).size).toBe(501)
    expect(events.at(-1)?.name).toBe('done')
  })

  test('is as long as it is asked to be', () => {
    const some = options('count=20&size=300')
    for (let i = 1; i <= 20; i++) expect(emittedEvent('a', some, i).data.length).toBeGreaterThanOrEqual(240)
  })

  test.each([
    'rate=100',
    'rate=3&delayMs=500',
    'everyMs=0&delayMs=10',
    'rate=50&pauseAfter=30&pauseMs=900',
    'everyMs=0&pauseAfter=4&pauseMs=70',
  ])('goes by the clock: %s', (query) => {
    const some = options(`${query}&count=60`)
    for (let ms = 0; ms < 3000; ms++) {
      let due = 0
      while (due < lastEvent(some) && dueMs(some, due + 1) <= ms + 1e-6) due++
      const emitted = emittedBy(some, ms)
      // The division may round the other way at the very millisecond.
      expect(Math.abs(emitted - due), `at ${ms} ms`).toBeLessThanOrEqual(Number.isInteger(some.everyMs) ? 0 : 1)
    }
  })

  test('a new connection gets what its mode says', () => {
    expect(firstFor(options('mode=id'), '7', 20)).toBe(8)
    expect(firstFor(options('mode=id'), null, 20)).toBe(1)
    expect(firstFor(options('mode=id'), 'unknown', 20)).toBe(1)
    expect(firstFor(options('mode=id&idRestart=5'), '3', 20)).toBe(19)
    expect(firstFor(options('mode=id&idEvery=4'), '8', 20)).toBe(9)
    expect(firstFor(options('mode=replay'), '7', 20)).toBe(1)
    expect(firstFor(options('mode=window&window=6'), '7', 20)).toBe(15)
    expect(firstFor(options('mode=none'), '7', 20)).toBe(21)
  })
})

describe('the agent', () => {
  let agent: Agent
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'agent-'))
    agent = await startAgent({ port: 0, log: folder })
  })
  afterEach(async () => {
    await agent.close()
    await rm(folder, { recursive: true })
  })

  const events = (items: readonly SseItem[]) =>
    items.flatMap((item) => (item.kind === 'event' ? [{ id: item.id, name: item.name, data: item.data }] : []))

  async function listen(
    path: string,
    headers: Record<string, string> = {},
  ): Promise<{ items: SseItem[]; cut: boolean }> {
    const response = await fetch(`${agent.url}${path}`, { headers })
    expect(response.status).toBe(200)
    const parser = createSseParser({ maxEventBytes: 1 << 24 })
    const items: SseItem[] = []
    try {
      for await (const chunk of response.body ?? []) items.push(...parser.push(chunk))
      return { items, cut: false }
    } catch {
      return { items, cut: true }
    }
  }

  const emitted = (job: string, query: string, from: number, to: number, take = 0) =>
    Array.from({ length: to - from + 1 }, (_, at) => emittedEvent(job, options(query), from + at, take))

  test.each([
    'eol=lf',
    'eol=crlf&slice=1',
    'eol=cr&slice=1',
    'garbageEvery=2&slice=3',
    'eol=crlf&garbageEvery=1',
    'idEvery=0',
    'idEvery=3',
    'idRepeat=2',
    'script=demo',
    'encoding=gzip',
    'encoding=br',
    'encoding=deflate',
    'size=500',
    'terminal=[DONE]',
  ])('sends its emission whole: %s', async (query) => {
    const all = `${query}&count=25&everyMs=0`
    const { items, cut } = await listen(`/jobs/a/stream?${all}`)
    expect(cut).toBe(false)
    expect(events(items)).toEqual(emitted('a', all, 1, 26))
  })

  test('emits by the clock while nobody listens', async () => {
    const made = Date.now()
    await fetch(`${agent.url}/jobs/a?rate=100&count=20&mode=none`, { method: 'POST' })
    await expect
      .poll(async () => await (await fetch(`${agent.url}/jobs/a`)).json(), { timeout: 5000 })
      .toMatchObject({
        state: 'done',
        emitted: 21,
      })
    expect(Date.now() - made).toBeGreaterThanOrEqual(200)
    expect((await fetch(`${agent.url}/jobs/a/stream`)).status).toBe(204)
  })

  test('cuts in the middle of an event, and goes on after the id', async () => {
    const query = 'count=9&everyMs=0&cutAfter=4'
    const first = await listen(`/jobs/a/stream?${query}`)
    expect(first.cut).toBe(true)
    expect(events(first.items)).toEqual(emitted('a', query, 1, 4))
    const second = await listen(`/jobs/a/stream?${query}`, { 'last-event-id': '4' })
    expect(events(second.items)).toEqual(emitted('a', query, 5, 8))
    await agent.close()
    const lines = (await readFile(join(folder, 'agent.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
    expect(lines).toMatchObject([
      { event: 'made', job: 'a' },
      { event: 'open', connection: 1, lastEventId: null, first: 1 },
      { event: 'sent', connection: 1, from: 1, to: 4 },
      { event: 'close', connection: 1, last: 4 },
      { event: 'open', connection: 2, lastEventId: '4', first: 5 },
      { event: 'sent', connection: 2, from: 5, to: 8 },
      { event: 'close', connection: 2, last: 8 },
    ])
    agent = await startAgent({ port: 0, log: folder })
  })

  test('has a demo go on after what its reader has, also when it was started anew meanwhile', async () => {
    const stream = new AbortController()
    const response = await fetch(`${agent.url}/jobs/a/stream`, {
      headers: { 'last-event-id': '150' },
      signal: stream.signal,
    })
    const parser = createSseParser({ maxEventBytes: 1 << 20 })
    const items: SseItem[] = []
    for await (const chunk of response.body ?? []) {
      items.push(...parser.push(chunk))
      if (events(items).length > 0) break
    }
    stream.abort()
    expect(events(items)[0]).toEqual(emittedEvent('a', options(''), 151))
    // Its end is its end, and what it never said begins anew.
    expect((await fetch(`${agent.url}/jobs/b/stream`, { headers: { 'last-event-id': '201' } })).status).toBe(204)
    await fetch(`${agent.url}/jobs/c`, { method: 'POST', headers: { 'last-event-id': 'what' } })
    expect(agent.jobs.get('c')?.emitted).toBe(1)
  })

  test('is cut on demand', async () => {
    const stream = listen('/jobs/a/stream?count=5&everyMs=0&terminal=none')
    await expect.poll(() => agent.jobs.get('a')?.connections[0]?.last).toBe(5)
    await fetch(`${agent.url}/jobs/a/cut`, { method: 'POST' })
    const { items, cut } = await stream
    expect(cut).toBe(true)
    expect(events(items)).toHaveLength(5)
  })

  test('stops where it stands when it is cancelled', async () => {
    const stream = listen('/jobs/a/stream?count=100000&rate=100')
    await expect.poll(() => agent.jobs.get('a')?.connections[0]?.last).toBeGreaterThan(3)
    expect((await fetch(`${agent.url}/jobs/a/cancel`, { method: 'POST' })).status).toBe(202)
    const { items, cut } = await stream
    expect(cut).toBe(false)
    expect(events(items)).toHaveLength(agent.jobs.get('a')?.emitted ?? 0)
    expect(await (await fetch(`${agent.url}/jobs/a`)).json()).toMatchObject({
      state: 'cancelled',
      cancels: 1,
    })
  })

  test('says something else on each connection when it is not deterministic', async () => {
    const query = 'count=3&everyMs=0&mode=replay&nondeterministic=1'
    const [first, second] = [await listen(`/jobs/a/stream?${query}`), await listen(`/jobs/a/stream?${query}`)]
    expect(events(first.items)).toEqual(emitted('a', query, 1, 4, 1))
    expect(events(second.items)).toEqual(emitted('a', query, 1, 4, 2))
  })

  test('sends signs of life while it is quiet', async () => {
    const { items } = await listen('/jobs/a/stream?count=1&delayMs=150&everyMs=0&commentMs=20&terminal=done')
    expect(items.filter(({ kind }) => kind === 'comment').length).toBeGreaterThan(2)
  })

  test('answers what its script says before it streams', async () => {
    const url = `${agent.url}/jobs/a/stream?answers=503,redirect,redirect-away,redirect-nowhere,wrong-type,drop&retryAfter=2&count=2&everyMs=0`
    const manual = { redirect: 'manual' } as const
    const busy = await fetch(url)
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([503, '2'])
    expect((await fetch(url)).headers.get('content-type')).toBe('text/event-stream')
    expect((await fetch(url, manual)).headers.get('location')).toBe('http://elsewhere.invalid/stream')
    expect((await fetch(url, manual)).headers.get('location')).toBeNull()
    expect((await fetch(url)).headers.get('content-type')).toBe('text/html')
    await expect(fetch(url)).rejects.toThrow()
    expect((await fetch(url)).status).toBe(200)
  })

  test('answers what it is asked to, while it runs, before it streams again', async () => {
    const url = `${agent.url}/jobs/a/stream?count=2&everyMs=0`
    expect((await fetch(url)).status).toBe(200)
    expect((await fetch(`${agent.url}/jobs/a/answers?next=500x2`, { method: 'POST' })).status).toBe(202)
    expect((await fetch(`${agent.url}/jobs/a/answers?next=sure`, { method: 'POST' })).status).toBe(400)
    expect([(await fetch(url)).status, (await fetch(url)).status, (await fetch(url)).status]).toEqual([500, 500, 200])
  })

  test('refuses a job it cannot make', async () => {
    const answer = await fetch(`${agent.url}/jobs/a/stream?cuont=1`)
    expect([answer.status, await answer.text()]).toEqual([400, 'there is no option cuont\n'])
  })
})
