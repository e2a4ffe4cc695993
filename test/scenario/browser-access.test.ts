import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import type { BrowserContext } from 'playwright-core'
import { BrowserSource } from '../kit/browser-source.ts'
import { eventually } from '../kit/eventually.ts'
import { findGateway } from '../kit/find-gateway.ts'
import { Gateway } from '../kit/gateway.ts'
import { askTicket, ISSUER, SECRET, signToken } from '../kit/issuer.ts'
import { testInBrowser } from '../kit/test-in-browser.ts'
import { numbered, writeTopic, writeTopics } from '../kit/topics.ts'

/** A real browser's EventSource where tokens are asked for, in a page of another origin. */

const envoy = await findGateway('envoy')
const folder = await mkdtemp(join(tmpdir(), 'baton-access-'))
await writeFile(join(folder, 'jwt.key'), SECRET)
afterAll(() => rm(folder, { recursive: true }))

/** The same page as another site has it: no cookie of ours goes out from there. */
const elsewhere = (origin: string): string => origin.replace('127.0.0.1', 'localhost')

const { test, inBrowser, hasBrowser, origin } = await testInBrowser((origin) => ({
  relays: 0,
  edges: 2,
  environment: {
    BATON_AUTH: 'jwt',
    BATON_JWT_KEY_FILE: join(folder, 'jwt.key'),
    BATON_JWT_ISSUERS: ISSUER,
    BATON_CORS_ORIGINS: `${origin},${elsewhere(origin)}`,
    BATON_HEARTBEAT_MS: '1000',
  },
}))

const baton = { subscribe: ['topic:mine.*'] }
const seconds = (fromNow: number): number => Math.floor(Date.now() / 1000) + fromNow

/** Logs in, as it were: a cookie that no script can read, for the host of the edges. */
const giveCookie = (context: BrowserContext, url: string, token: string): Promise<void> =>
  context.addCookies([{ name: 'baton', value: token, url, httpOnly: true, sameSite: 'Lax' }])

inBrowser(
  'I2: with a cookie a page of another origin follows, also when its edge is killed',
  async ({ system, context, page }) => {
    const [edge] = system.edges
    const url = system.edgeUrl('/topics/events?topic=mine.1')
    await giveCookie(context, url, await signToken({ baton }))
    const source = await BrowserSource.open(page, url, { names: ['mine.1'], withCredentials: true })
    await source.until('stream.open')
    await writeTopics(system.store, 'mine.1', 1, 20)
    await source.until('mine.1', 20)
    await edge?.child.kill()
    await writeTopics(system.store, 'mine.1', 21, 40)
    await edge?.restart()
    await source.until('mine.1', 40)
    expect(await source.texts('mine.1')).toEqual(numbered('mine.1', 1, 40))

    const stranger = await BrowserSource.open(page, url)
    await stranger.untilClosed()
    const other = system.edgeUrl('/topics/events?topic=theirs.1')
    const denied = await BrowserSource.open(page, other, { withCredentials: true })
    await denied.untilClosed()
    for (const refused of [stranger, denied]) expect((await refused.look()).seen).toEqual([])
  },
)

test.skipIf(!hasBrowser || envoy === null)(
  'I2: with a ticket a page of another site follows, and goes on at the other edge with the same ticket',
  async ({ system, page }) => {
    await using gateway = await Gateway.start('envoy', envoy ?? '', { edges: system.edges })
    const made = await askTicket(gateway, { baton })
    expect(made.status).toBe(201)
    const { ticket } = (await made.json()) as { ticket: string }
    await page.goto(elsewhere(origin))
    const url = `${gateway.url}/topics/events?topic=mine.2&ticket=${encodeURIComponent(ticket)}`
    const source = await BrowserSource.open(page, url, { names: ['mine.2'] })
    await source.until('stream.open')
    await writeTopics(system.store, 'mine.2', 1, 10)
    await source.until('mine.2', 10)
    // Whichever it was at: it is at the other one afterwards, and then at the one again.
    for (const [at, edge] of system.edges.entries()) {
      await edge.child.kill()
      await writeTopics(system.store, 'mine.2', at * 10 + 11, at * 10 + 20)
      await source.until('mine.2', at * 10 + 20)
      await edge.restart()
      await eventually('the gateway knows that it is back', async () => {
        const probes = await Promise.all(Array.from({ length: 8 }, () => fetch(`${gateway.url}/readyz`)))
        return probes.every(({ ok }) => ok)
      })
    }
    expect(await source.texts('mine.2')).toEqual(numbered('mine.2', 1, 30))
    const said = [await gateway.said(), ...system.edges.map(({ output }) => output)].join('\n')
    expect(said).not.toContain(ticket)
  },
)

inBrowser(
  'a stream ends with its token, and does not come back without a new one',
  async ({ system, context, page }) => {
    const url = system.edgeUrl('/topics/events?topic=mine.3')
    await giveCookie(context, url, await signToken({ baton, exp: seconds(5) }))
    const source = await BrowserSource.open(page, url, { names: ['mine.3'], withCredentials: true })
    await source.until('stream.open')
    await writeTopic(system.store, 'mine.3', 'mine.3 1')
    await source.until('mine.3')
    expect(JSON.parse((await source.until('stream.bye')).data)).toEqual({ reason: 'token-expired' })
    await source.untilClosed()
    await writeTopic(system.store, 'mine.3', 'mine.3 2')

    // Its page logs in again, and goes on where it was: a new EventSource says so itself.
    await giveCookie(context, url, await signToken({ baton }))
    const last = (await source.look()).seen.at(-1)?.id ?? ''
    const options = { names: ['mine.3'], withCredentials: true }
    const renewed = await BrowserSource.open(page, `${url}&lastEventId=${last}`, options)
    await renewed.until('mine.3')
    expect(await renewed.texts('mine.3')).toEqual(['mine.3 2'])
  },
)
