import { describe, expect, test } from 'vitest'
import { upText } from './say-up.ts'
import type { UpEvent } from './up.ts'

const addresses = {
  natsUrl: 'nats://127.0.0.1:4222',
  edgeUrls: ['http://127.0.0.1:8080'],
  agentUrl: 'http://127.0.0.1:9000',
  cliEnv: {},
}

/** The lines to paste, as they are printed. */
function pasted(change: Partial<typeof addresses> | { agentUrl: null }, runs: string[] = ['demo-1'], cli = 'nats') {
  const event: UpEvent = {
    event: 'ready',
    addresses: { ...addresses, ...change },
    processes: [{ name: 'edge-1', pid: 1, url: 'http://127.0.0.1:8080' }],
    runs,
    late: [],
    dataFolder: '/data',
  }
  return upText(event, cli === '' ? null : cli) ?? ''
}

describe('what a person is given to paste', () => {
  test('follows a run, registers another, and hears both on NATS', () => {
    const lines = pasted({}).split('\n')
    const at = lines.indexOf('To paste:')
    expect(lines.slice(at + 1, at + 4)).toEqual([
      '  curl -N http://127.0.0.1:8080/runs/demo-1/events',
      `  curl -X POST http://127.0.0.1:8080/runs -H 'content-type: application/json' -d '{"run":"mine","url":"http://127.0.0.1:9000/jobs/mine/stream"}'`,
      "  nats -s nats://127.0.0.1:4222 sub 'live.run.*'",
    ])
    expect(lines.join('\n')).not.toContain('npx baton')
  })

  test('without a demo registers first what it then follows', () => {
    const text = pasted({ agentUrl: null }, [])
    expect(text.indexOf('curl -X POST')).toBeLessThan(text.indexOf('curl -N http://127.0.0.1:8080/runs/mine/events'))
  })

  test('names the nats CLI where the set-up will put it', () => {
    expect(pasted({}, [], '')).toMatch(/ {2}\.baton\/bin\/nats -s .* # npm run setup brings/)
  })

  test('says what the CLI has to be told of a system that is not where it looks by itself', () => {
    const text = pasted({ cliEnv: { BATON_NATS_URL: 'nats://127.0.0.1:4223', BATON_REPLICAS: '3' } })
    expect(text).toContain('  export BATON_NATS_URL=nats://127.0.0.1:4223 BATON_REPLICAS=3\n')
  })
})
