import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectNats, type Nats } from '@baton/store/connect'
import { RELAY_CONNECTION } from '@baton/store/names'
import { onDisconnects } from '@baton/store/peers'
import { applyTopology, planTopology } from '@baton/store/topology'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { freePort } from '../kit/free-port.ts'
import { passwordOf, PASSWORDS, type Role } from '../kit/nats-server.ts'
import { natsServer } from '../../apps/cli/setup/programs.js'

/** The configurations in nats/, as they are, with a real server. */
const nats = (...path: string[]) => join(root, 'nats', ...path)

let folder = ''
let stack = new AsyncDisposableStack()
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baton-conf-'))
  stack = new AsyncDisposableStack()
  stack.defer(() => rm(folder, { recursive: true, force: true }))
})
afterEach(() => stack.disposeAsync())

async function start(name: string, args: string[], environment: Record<string, string> = {}): Promise<Child> {
  const binary = findBinary('nats-server', 'BATON_NATS_SERVER')
  if (binary === null) throw new Error('no nats-server: run `npm run setup`')
  return stack.use(new Child(name, binary, args, environment))
}

async function connect(url: string, name: string): Promise<Nats> {
  const client = await connectNats({ servers: [url], name }, AbortSignal.timeout(20_000))
  stack.defer(() => client.nc.close())
  return client
}

/** Connects by one way, leaves by another, and hears of it; with the connection's name. */
async function hearsDisconnect(listener: Nats, url: string): Promise<void> {
  const gone: string[] = []
  onDisconnects(listener, (boot) => gone.push(boot), AbortSignal.timeout(20_000))
  await listener.nc.flush()
  const leaving = await connect(url, `${RELAY_CONNECTION}b0b0`)
  await leaving.nc.close()
  await eventually('the notice arrives', () => gone.includes('b0b0'))
}

const limits = {
  runEvents: 100,
  runsMaxAgeMs: 60_000,
  runsMaxBytes: 2 ** 24,
  topicEvents: 100,
  topicsMaxAgeMs: 60_000,
  topicsMaxBytes: 2 ** 24,
}

test('dev.conf: loopback, JetStream, no password, and the disconnect notice', async () => {
  const port = await freePort()
  const server = await start('dev', ['-c', nats('dev.conf'), '-p', String(port), '-sd', join(folder, 'dev')])
  await server.said(/Server is ready/)
  expect(server.output).toContain(`Listening for client connections on 127.0.0.1:${port}`)
  const url = `nats://127.0.0.1:${port}`
  const client = await connect(url, 'test')
  await applyTopology(client, await planTopology(client, { ...limits, replicas: 1 }))
  const again = await planTopology(client, { ...limits, replicas: 1 })
  expect(again.map(({ kind }) => kind)).toEqual(again.map(() => 'same'))
  await hearsDisconnect(client, url)
})

test('cluster.conf: three nodes, passwords, three replicas, and the notice from another node', async () => {
  const ports = await Promise.all(Array.from({ length: 6 }, () => freePort()))
  const routes = ports.slice(3).map((port) => `nats://127.0.0.1:${port}`)
  const servers = await Promise.all(
    [0, 1, 2].map((at) => {
      const own = [
        '-a',
        '127.0.0.1',
        '-p',
        String(ports[at]),
        '--cluster',
        routes[at] ?? '',
        '--routes',
        routes.join(','),
      ]
      return start(`nats-${at + 1}`, ['-c', nats('cluster.conf'), ...own], {
        ...PASSWORDS,
        NATS_NAME: `nats-${at + 1}`,
        NATS_DATA: join(folder, String(at)),
      })
    }),
  )
  await Promise.all(servers.map((server) => server.said(/Server is ready/)))
  const url = (at: number, role: Role) => `nats://${role}:${passwordOf(role)}@127.0.0.1:${ports[at]}`
  const client = await connect(url(0, 'operator'), 'test')
  await eventually(
    'the cluster makes streams of three replicas',
    async () => {
      await applyTopology(client, await planTopology(client, { ...limits, replicas: 3 }))
      return true
    },
    { withinMs: 30_000 },
  )
  const { cluster, config } = await client.jsm.streams.info('RUNS')
  expect(config.num_replicas).toBe(3)
  expect(cluster?.replicas).toHaveLength(2)
  await hearsDisconnect(client, url(1, 'relay'))
  const nameless = `nats://127.0.0.1:${ports[2]}`
  const stranger = connectNats({ servers: [nameless], name: 'stranger' }, AbortSignal.timeout(1500))
  await expect(stranger).rejects.toThrow()
})

test('cluster.conf does not start without its passwords', async () => {
  const server = await start('nats-1', ['-c', nats('cluster.conf')], { NATS_NAME: 'nats-1', NATS_DATA: folder })
  const { code } = await server.exited
  expect(code).toBe(1)
  expect(server.output).toContain('BATON_NATS')
})

test('compose.yaml runs the version the set-up brings', async () => {
  const text = await readFile(nats('compose.yaml'), 'utf8')
  const images = [...text.matchAll(/image: (\S+)/g)].map((found) => found[1])
  expect(images).toEqual(images.map(() => natsServer.image))
  expect(natsServer.image).toBe(`nats:${natsServer.pinned.slice(1)}`)
})
