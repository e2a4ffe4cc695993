import { expect } from 'vitest'
import { BrowserSource } from '../kit/browser-source.ts'
import { steadily } from '../kit/eventually.ts'
import { startEdge } from '../kit/process.ts'
import { testInBrowser } from '../kit/test-in-browser.ts'
import { numbered, writeTopic, writeTopics } from '../kit/topics.ts'

/** The EventSource of a real browser, in a page of another origin than the edge's. */

const { inBrowser, origin } = await testInBrowser((origin) => ({
  relays: 1,
  edges: 1,
  environment: { BATON_CORS_ORIGINS: origin },
}))

inBrowser(
  'I2: killed in the middle of a stream, its edge comes back and the page goes on',
  async ({ system, page }) => {
    const [edge] = system.edges
    const source = await BrowserSource.open(page, system.edgeUrl('/topics/events?topic=mid.*'), { names: ['mid.1'] })
    await source.until('stream.open')
    await writeTopics(system.store, 'mid.1', 1, 30)
    await source.until('mid.1', 30)
    await edge?.child.kill()
    await writeTopics(system.store, 'mid.1', 31, 60)
    await edge?.restart()
    await source.until('mid.1', 60)
    await writeTopic(system.store, 'mid.1', 'mid.1 61')
    await source.until('mid.1', 61)
    expect(await source.texts('mid.1')).toEqual(numbered('mid.1', 1, 61))
    expect(await source.texts('stream.reset')).toEqual([])
  },
)

inBrowser('I2: killed before any event was received, and the page misses nothing', async ({ system, page }) => {
  const [edge] = system.edges
  await writeTopics(system.store, 'before', 1, 3)
  const source = await BrowserSource.open(page, system.edgeUrl('/topics/events?topic=before'), { names: ['before'] })
  await source.until('stream.open')
  await edge?.child.kill()
  await writeTopics(system.store, 'before', 4, 20)
  await edge?.restart()
  await source.until('before', 17)
  expect(await source.texts('before')).toEqual(numbered('before', 4, 20))
  expect(await source.texts('stream.open')).toHaveLength(2)
})

inBrowser('over the limit it is told so, and comes back by itself', async ({ system, page }) => {
  const limits = { BATON_CORS_ORIGINS: origin, BATON_OPENS_PER_CLIENT: '2' }
  await using edge = await startEdge('edge-limited', { natsUrl: system.nats.url, environment: limits })
  const url = `${edge.url}/topics/events?topic=limited`
  const sources = await Promise.all(
    Array.from({ length: 5 }, () => BrowserSource.open(page, url, { names: ['limited'] })),
  )
  for (const source of sources) await source.until('stream.open')
  await writeTopic(system.store, 'limited', 'for all')
  for (const source of sources) await source.until('limited')
  const refusals = await Promise.all(sources.map((source) => source.texts('stream.busy')))
  expect(refusals.flat().length).toBeGreaterThanOrEqual(3)
  for (const refusal of refusals.flat()) expect(JSON.parse(refusal)).toMatchObject({ reason: 'limit' })
})

inBrowser('after the end of a run it stops', async ({ system, page, run }) => {
  const job = system.agents.job(run, { events: 20, perSecond: 100 })
  await system.register(run, { url: job.url })
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  const source = await BrowserSource.open(page, system.edgeUrl(`/runs/${run}/events`))
  await source.until('stream.end')
  await source.untilClosed()
  const { opens, seen } = await source.look()
  expect(seen.at(-1)?.name).toBe('stream.end')
  // It came back once more, was told to stop, and does not come again.
  expect(opens).toBe(1)
  await steadily('it asks no more', () => asked.length === 2, 2000)
  expect((await source.look()).seen).toHaveLength(seen.length)
})
