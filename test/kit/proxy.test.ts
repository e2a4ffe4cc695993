import { connect, createServer, type Socket } from 'node:net'
import { expect } from 'vitest'
import { test as base } from 'vitest'
import { eventually } from './eventually.ts'
import { Proxy } from './proxy.ts'

type Target = { readonly port: number; readonly received: () => string; readonly sockets: readonly Socket[] }

const test = base.extend<{ target: Target; proxy: Proxy }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures from the pattern
  target: async ({}, use) => {
    let text = ''
    const sockets: Socket[] = []
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => undefined).on('data', (chunk) => (text += chunk.toString()))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    await use({ port: address.port, received: () => text, sockets })
    for (const socket of sockets) socket.destroy()
    server.close()
  },
  proxy: async ({ target }, use) => {
    await using proxy = await Proxy.start(target)
    await use(proxy)
  },
})

const dial = (port: number): Socket => connect({ port, host: '127.0.0.1' }).on('error', () => undefined)

test('bytes pass both ways', async ({ proxy, target }) => {
  const client = dial(proxy.port)
  let answer = ''
  client.on('data', (chunk) => (answer += chunk.toString())).write('ask')
  await eventually('the target has it', () => target.received() === 'ask')
  target.sockets[0]?.write('answer')
  await eventually('the client has the answer', () => answer === 'answer')
  client.destroy()
})

test('what is held arrives late, even when its sender has gone and come back', async ({ proxy, target }) => {
  const first = dial(proxy.port)
  first.write('1')
  await eventually('the connection works', () => target.received() === '1')
  const held = proxy.holdUp()
  first.write('late')
  await eventually('it waits here', () => held.waiting().toString() === 'late')
  held.cutClients()
  const second = dial(proxy.port)
  second.write('2')
  await eventually('the new connection is not held', () => target.received() === '12')
  held.flow()
  await eventually('the late bytes arrive', () => target.received() === '12late')
  second.destroy()
})

test('a cut resets both ends, and a refusing proxy takes nobody', async ({ proxy, target }) => {
  const client = dial(proxy.port)
  client.write('1')
  await eventually('the connection works', () => target.received() === '1')
  proxy.refuses = true
  proxy.cut()
  await eventually('both are closed', () => client.destroyed && target.sockets.every((socket) => socket.destroyed))
  const refused = dial(proxy.port)
  await eventually('it is refused', () => refused.destroyed)
  expect(proxy.connections).toBe(1)
})

test('some bytes hold their connection from their coming on, and no other', async ({ proxy, target }) => {
  const [one, other] = [dial(proxy.port), dial(proxy.port)]
  const held = proxy.holdAt('up', 'secret')
  one.write('a secret')
  await eventually('it waits here', () => held.waiting().toString() === 'a secret')
  other.write('plain')
  await eventually('the other passes', () => target.received() === 'plain')
  held.flow()
  await eventually('the held bytes arrive', () => target.received() === 'plaina secret')
  for (const socket of [one, other]) socket.destroy()
})

test('a parted network loses a direction, of new connections too, until it is joined', async ({ proxy, target }) => {
  const first = dial(proxy.port)
  first.write('1')
  await eventually('the connection works', () => target.received() === '1')
  let answer = ''
  first.on('data', (chunk) => (answer += chunk.toString()))
  proxy.part('up')
  const second = dial(proxy.port)
  first.write('2')
  second.write('3')
  target.sockets[0]?.write('answer')
  await eventually('the way back is open', () => answer === 'answer')
  expect(target.received()).toBe('1')
  proxy.join()
  await eventually('all arrives', () => target.received().length === 3)
  for (const socket of [first, second]) socket.destroy()
})

test('an abandoned connection is dead at both ends, and neither learns of it; a new one works', async ({
  proxy,
  target,
}) => {
  const first = dial(proxy.port)
  first.write('1')
  await eventually('the connection works', () => target.received() === '1')
  const end = proxy.abandon()
  first.write('lost')
  const second = dial(proxy.port)
  second.write('2')
  await eventually('the new one works', () => target.received() === '12')
  expect([first.destroyed, target.sockets[0]?.destroyed]).toEqual([false, false])
  end()
  await eventually('the old one is gone', () => first.destroyed)
  expect(target.received()).toBe('12')
  second.destroy()
})
