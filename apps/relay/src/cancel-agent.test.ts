import { afterEach, expect, test } from 'vitest'
import { cancelAgent } from './cancel-agent.ts'
import { closeAll, says, silent, testAgent, testSpec, testUpstream } from './test-agent.ts'

afterEach(closeAll)

const secrets = new Map([['KEY', 's3cret']])
const never = new AbortController().signal

test('cancelling is one POST with the job’s headers and secret', async () => {
  const agent = await testAgent(says(202))
  const spec = testSpec('http://agent.invalid/', { cancel: agent.url, headers: { 'x-tenant': 't1' }, secret: 'KEY' })
  await cancelAgent(spec, testUpstream({ secrets }), silent, never)
  expect(agent.requests).toHaveLength(1)
  expect(agent.requests[0]).toMatchObject({ method: 'POST', url: '/stream?job=1' })
  expect(agent.requests[0]?.headers).toMatchObject({ 'x-tenant': 't1', authorization: 'Bearer s3cret' })
})

test('a job without a cancel URL is not asked', async () => {
  await cancelAgent(testSpec('http://agent.invalid/'), testUpstream(), silent, never)
})

test('no answer of the agent is an obstacle', async () => {
  const refusing = await testAgent(says(500))
  await cancelAgent(testSpec('http://agent.invalid/', { cancel: refusing.url }), testUpstream(), silent, never)
  const gone = await testAgent((response) => void response.destroy())
  await cancelAgent(testSpec('http://agent.invalid/', { cancel: gone.url }), testUpstream(), silent, never)
  expect([refusing.requests.length, gone.requests.length]).toEqual([1, 1])
})

test('an address that is not allowed is not asked', async () => {
  const agent = await testAgent(says(202))
  await cancelAgent(
    testSpec('http://agent.invalid/', { cancel: agent.url }),
    testUpstream({ allow: [] }),
    silent,
    never,
  )
  expect(agent.requests).toHaveLength(0)
})

test('the signal ends the wait', async () => {
  const agent = await testAgent(() => undefined)
  const stop = new AbortController()
  const asked = cancelAgent(
    testSpec('http://agent.invalid/', { cancel: agent.url }),
    testUpstream(),
    silent,
    stop.signal,
  )
  await expect.poll(() => agent.requests.length).toBe(1)
  stop.abort(new Error('released'))
  await expect(asked).rejects.toThrow('released')
})
