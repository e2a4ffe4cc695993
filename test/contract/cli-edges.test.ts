import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { batonAnswer } from '../kit/baton.ts'

/** What the CLI does with what it is told about edges, before one of them has answered. */

/** None of these commands needs a NATS server. */
const NO_NATS = 'nats://127.0.0.1:9'
const baton = (args: string[], environment: Record<string, string> = {}) => batonAnswer(NO_NATS, args, environment)

const commands = [
  ['tail', 'run', 'mine'],
  ['tail', 'topic', 'orders.*'],
  ['publish', 'orders.1', 'paid'],
]

test.each(commands)('an edge that no request can ever reach ends it at once, with 2: %s %s', async (...words) => {
  for (const [edge, why] of [
    ['http://127.0.0.1:6000', 'cannot be asked: nothing is ever sent to port 6000'],
    ['ftp://127.0.0.1:8080', 'must be an http URL'],
    ['http://127.0.0.1:99999', 'must be an http URL'],
    ['http://me:hush@127.0.0.1:8080', 'must be an http URL without a user'],
  ] as const) {
    const { code, output } = await baton([...words, '--edge', edge])
    expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining(why) })
    expect(output).not.toContain('hush')
  }
})

test.each(commands)('what no header can hold is named, and not shown where it is a token: %s %s', async (...words) => {
  const at = ['--edge', 'http://127.0.0.1:9999']
  const token = await baton([...words, ...at], { BATON_TOKEN: 'hush\nhush' })
  expect(token).toMatchObject({ code: 2, output: expect.stringContaining('the token has characters') })
  expect(token.output).not.toContain('hush')
})

test('an id that no header can hold is no position: 2', async () => {
  const { code, output } = await baton(['tail', 'run', 'mine', '--last-event-id', '7-€'])
  expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining('--last-event-id: has characters') })
})

test.each(commands)('BATON_EDGE_URL says what --edge would, and --edge goes before it: %s %s', async (...words) => {
  const environment = { BATON_EDGE_URL: 'http://127.0.0.1:6000, http://127.0.0.1:9999' }
  expect(await baton(words, environment)).toMatchObject({
    code: 2,
    output: expect.stringContaining('http://127.0.0.1:6000 cannot be asked'),
  })
  expect(await baton([...words, '--edge', 'http://127.0.0.1:6665'], environment)).toMatchObject({
    code: 2,
    output: expect.stringContaining('http://127.0.0.1:6665 cannot be asked'),
  })
})

test('a BATON_EDGE_URL that cannot be used ends every command with 2 and is named', async () => {
  const { code, output } = await baton(['runs', 'ls'], { BATON_EDGE_URL: 'localhost:8080' })
  expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining('BATON_EDGE_URL: must be http URLs') })
})

/** Something at an address that takes a request, answers so, and hangs up; counts what has come. */
async function oddEdge(answer: string) {
  let requests = 0
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      requests++
      socket.end(answer)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => requests,
    [Symbol.dispose]: () => void server.close(),
  }
}

test('nothing is sent to any edge where one of them can never be asked', async () => {
  using first = await oddEdge('')
  const edges = ['--edge', first.url, '--edge', 'http://127.0.0.1:6000']
  const { code, output } = await baton(['publish', 'orders.1', 'paid', '--key', 'k', ...edges])
  expect({ code, output }).toEqual({
    code: 2,
    output: expect.stringContaining('http://127.0.0.1:6000 cannot be asked'),
  })
  expect(first.requests()).toBe(0)
})

test.each([[''], ['no HTTP at all\r\n\r\n'], ['HTTP/1.1 302 Found\r\nlocation: ftp://a/b\r\n\r\n']])(
  'an edge that answers %j may have stored what was published: 3, not the 2 of what was never sent',
  async (answer) => {
    using edge = await oddEdge(answer)
    const { code, output } = await baton(['publish', 'orders.1', 'paid', '--edge', edge.url])
    expect({ code, output }).toEqual({ code: 3, output: expect.stringContaining(edge.url) })
    expect(edge.requests()).toBe(1)
  },
)
