import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { complaints, scrape, type Scrape } from '../kit/metrics.ts'
import { startWatchdog } from '../kit/process.ts'
import type { SseClient } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

const test = testWithSystem({ relays: 2, edges: 1, environment: { BATON_HEARTBEAT_WRITE_MS: '200' } })

/** Runs that were taken, followed, and have ended. */
async function lives(system: System, count: number, prefix: string): Promise<void> {
  const runs = Array.from({ length: count }, (_, at) => `${prefix}-${at}`)
  const clients: SseClient[] = []
  for (const run of runs) {
    const job = system.agents.job(run, { events: 20, perSecond: 100 })
    await system.register(run, { url: job.url, labels: { team: prefix } })
    clients.push(system.follow(run, { query: '?from=start&status=1' }))
  }
  for (const client of clients) await client.until('the end', ({ event }) => event === 'stream.end', 60_000)
  await Promise.all(clients.map((client) => client.close()))
}

describe('/metrics', () => {
  test('of every process is what Prometheus reads, by its conventions, and does not grow with runs', async ({
    system,
  }) => {
    await using watchdog = await startWatchdog('watchdog', {
      natsUrl: system.nats.url,
      environment: { BATON_QUIET_MS: '1200' },
    })
    const urls = [...system.relays, ...system.edges, watchdog].map(({ url }) => url)
    const all = (): Promise<Scrape[]> => Promise.all(urls.map(scrape))
    // A takeover, so that what only that brings is there before the counting begins.
    await lives(system, 5, 'first')
    const job = system.agents.job('stays', { events: 100_000, perSecond: 5 })
    await system.register('stays', { url: job.url })
    const owner = await system.owner('stays')
    await owner.child.kill()
    await owner.restart()
    await eventually('its takeover is counted', async () => {
      const [one, other] = await Promise.all(system.relays.map(({ url }) => scrape(url)))
      const series = [...(one?.series ?? []), ...(other?.series ?? [])]
      return series.some((name) => name.startsWith('baton_relay_takeover_seconds_count{cause='))
    })

    const before = await all()
    const families = before.flatMap((one) => one.families)
    // Node's own come from prom-client, whose names are not ours to mend.
    const own = families.filter(({ name }) => name.startsWith('baton_'))
    expect(own.flatMap(complaints)).toEqual([])
    expect(families.filter(({ help, type }) => help === '' || type === 'UNTYPED')).toEqual([])
    const known = await readFile(join(root, 'deploy', 'METRICS.md'), 'utf8')
    expect(own.map(({ name }) => name).filter((name) => !known.includes(`\`${name}\``))).toEqual([])

    await lives(system, 50, 'later')
    const after = await all()
    for (const [at, { series, labels }] of after.entries()) {
      // Labels have few values, which may show up one by one; none is a run, a client or an address.
      for (const [name, values] of labels) {
        expect(name).not.toMatch(/run|client|boot|url|topic|job/)
        for (const value of values) expect(value, name).not.toMatch(/later|first|stays|127\.0\.0\.1/)
        if (name !== 'le') expect(values.size, `values of ${name}: ${[...values].join()}`).toBeLessThan(15)
      }
      expect(series.length - (before[at]?.series.length ?? 0)).toBeLessThan(50)
    }
  })
})
