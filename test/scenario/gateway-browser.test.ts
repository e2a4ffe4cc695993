import { afterAll, describe, expect } from 'vitest'
import { BrowserSource } from '../kit/browser-source.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { findGateway } from '../kit/find-gateway.ts'
import { Gateway } from '../kit/gateway.ts'
import { testInBrowser } from '../kit/test-in-browser.ts'
import { numbered, writeTopic, writeTopics } from '../kit/topics.ts'

/** A real browser before a real gateway, in a page of another origin. */

const certificate = await makeCertificate()
const gateways = [
  ['envoy', await findGateway('envoy')],
  ['nginx', await findGateway('nginx')],
] as const
afterAll(() => certificate?.[Symbol.asyncDispose]())

const { test, hasBrowser } = await testInBrowser(
  (origin) => ({ relays: 0, edges: 2, environment: { BATON_CORS_ORIGINS: origin } }),
  { ignoreHTTPSErrors: true },
)

/** More than a browser opens to one host over HTTP/1.1. */
const STREAMS = 9

/** Where a browser, a gateway or openssl is not to be had these are skipped, and said so. */
describe.each(gateways)('through %s', (kind, binary) => {
  test.skipIf(!hasBrowser || binary === null)(
    'I2: a page goes on at the other edge, and comes back by itself when there was none for a while',
    async ({ system, page }) => {
      await using gateway = await Gateway.start(kind, binary ?? '', { edges: system.edges })
      const topic = `lone.${kind}`
      const source = await BrowserSource.open(page, `${gateway.url}/topics/events?topic=${topic}`, { names: [topic] })
      await source.until('stream.open')
      await writeTopics(system.store, topic, 1, 10)
      await source.until(topic, 10)
      const [one, other] = system.edges
      await one?.child.kill()
      await writeTopics(system.store, topic, 11, 20)
      await source.until(topic, 20)
      await other?.child.kill()
      await source.until('stream.busy')
      await writeTopics(system.store, topic, 21, 30)
      await Promise.all(system.edges.map((edge) => edge.restart()))
      await source.until(topic, 30)
      expect(await source.texts(topic)).toEqual(numbered(topic, 1, 30))
    },
  )

  test.skipIf(!hasBrowser || binary === null || certificate === null)(
    'over TLS a page has more streams than HTTP/1.1 would give it',
    async ({ system, page }) => {
      if (certificate === null) throw new Error('no openssl')
      await using gateway = await Gateway.start(kind, binary ?? '', { edges: system.edges, tls: certificate })
      const sources = await Promise.all(
        Array.from({ length: STREAMS }, (_, at) =>
          BrowserSource.open(page, `${gateway.url}/topics/events?topic=many.${at}`, { names: [`many.${at}`] }),
        ),
      )
      for (const source of sources) await source.until('stream.open')
      for (const [at, source] of sources.entries()) {
        await writeTopic(system.store, `many.${at}`, 'here')
        await source.until(`many.${at}`)
      }
    },
  )
})
