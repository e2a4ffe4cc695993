import { expect } from 'vitest'
import type { Page } from 'playwright-core'
import { eventually } from '../kit/eventually.ts'
import { testInBrowser } from '../kit/test-in-browser.ts'

const { inBrowser } = await testInBrowser(() => ({ relays: 2, edges: 1 }))

const textOf = (page: Page, id: string): Promise<string> => page.locator(`#${id}`).innerText()
const eventsOn = async (page: Page): Promise<number> => Number(await textOf(page, 'count'))

inBrowser(
  'I2: the page in a real browser follows a run through kill -9 of its relay and of its edge, nothing missing',
  async ({ system, run, page }) => {
    const mistakes: string[] = []
    page.on('pageerror', (error) => mistakes.push(String(error)))
    const job = system.agents.job(run, { events: 100_000, perSecond: 50 })
    await system.register(run, { url: job.url })
    await page.goto(system.edgeUrl('/'))
    await eventually('the page follows the run by itself', async () => (await eventsOn(page)) > 50)
    expect(await textOf(page, 'order')).toMatch(/^yes/)

    const owner = await system.owner(run)
    await eventually('it says who owns the run', async () => (await textOf(page, 'owner')).includes(owner.name))
    await owner.child.kill()
    await eventually('it says that the run has changed hands', async () =>
      (await textOf(page, 'story')).includes(`${owner.name} handed over to`),
    )
    expect(await textOf(page, 'connections')).toBe('1')
    const before = await eventsOn(page)
    await eventually('events go on', async () => (await eventsOn(page)) > before + 50)

    const [edge] = system.edges
    await edge?.child.kill()
    await eventually(
      'it says that it has lost the edge',
      async () => (await page.locator('#link').getAttribute('data-state')) === 'back',
    )
    await edge?.restart()
    await eventually(
      'it is back by itself',
      async () => (await page.locator('#link').getAttribute('data-state')) === 'live',
      { withinMs: 30_000 },
    )
    const back = await eventsOn(page)
    await eventually('events go on', async () => (await eventsOn(page)) > back + 50)
    expect(await textOf(page, 'order')).toBe('yes, nothing missing')
    expect(Number(await textOf(page, 'connections'))).toBeGreaterThan(1)

    expect((await system.post(`/runs/${run}/cancel`, {})).status).toBe(202)
    await eventually(
      'it shows the end',
      async () => (await page.locator('#link').getAttribute('data-state')) === 'ended',
    )
    expect(mistakes).toEqual([])
  },
)
