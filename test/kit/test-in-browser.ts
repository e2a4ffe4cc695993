import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll } from 'vitest'
import { servePage } from './browser-source.ts'
import { startChromium } from './chromium.ts'
import { testWithSystem, type SystemOptions } from './system.ts'

/**
 * As `testWithSystem`, and each test has a page of its own in a real browser, of another origin than any edge's. Where no
 * Chromium is to be had, tests made by `inBrowser` are skipped, and said so.
 */
export async function testInBrowser(
  optionsFor: (origin: string) => SystemOptions,
  contextOptions: BrowserContextOptions = {},
) {
  const browser: Browser | null = await startChromium()
  const site = await servePage()
  afterAll(async () => {
    await browser?.close()
    site[Symbol.dispose]()
  })
  const test = testWithSystem(optionsFor(site.origin)).extend<{ context: BrowserContext; page: Page }>({
    // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures from the pattern
    context: async ({}, use) => {
      const context = await browser?.newContext(contextOptions)
      if (context === undefined) throw new Error('no Chromium')
      await use(context)
      await context.close()
    },
    page: async ({ context }, use) => {
      const page = await context.newPage()
      await page.goto(site.origin)
      await use(page)
    },
  })
  return { test, inBrowser: test.skipIf(browser === null), hasBrowser: browser !== null, origin: site.origin }
}
