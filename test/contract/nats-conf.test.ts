import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectNats, type Nats } from '@baton/store/connect'
import { RELAY_CONNECTION } from '@baton/store/names'
import { onDisconnects } from '@baton/store/peers'
import { applyTopology, planTopology } from '@baton/store/topology'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { batonAnswer } from '../kit/baton.ts'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { freePort } from '../kit/free-port.ts'
import { passwordOf, PASSWORDS, type Role } from '../kit/nats-server.ts'
import { startRelay } from '../kit/process.ts'
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

/** A key and a certificate for localhost that signs itself; null where there is no openssl. */
async function selfSigned(): Promise<{ cert: string; key: string } | null> {
  const openssl = findBinary('openssl')
  if (openssl === null) return null
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const subject = ['-subj', '/CN=baton', '-addext', 'subjectAltName=DNS:localhost']
  const form = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  const making = stack.use(
    new Child('openssl', openssl, ['req', ...form, ...subject, '-keyout', key, '-out', cert], {}),
  )
  expect((await making.exited).code, making.output).toBe(0)
  return { cert, key }
}

test(
  'server.conf with tls.conf: everything encrypted, processes connect by tls://, and a WebSocket listens',
  {
    timeout: 90_000,
  },
  async (context) => {
    const made = await selfSigned()
    if (made === null) return context.skip('no openssl')
    // As an operator would: the last line of server.conf made to count. The WebSocket's port is in the file.
    await cp(nats(), join(folder, 'nats'), { recursive: true })
    const [port, wsPort] = [await freePort(), await freePort()]
    const change = async (name: string, from: string, to: string) => {
      const file = join(folder, 'nats', name)
      const text = await readFile(file, 'utf8')
      expect(text).toContain(from)
      await writeFile(file, text.replace(from, to))
    }
    await change('server.conf', '# include "tls.conf"', 'include "tls.conf"')
    await change('tls.conf', 'listen: 0.0.0.0:8443', `listen: 127.0.0.1:${wsPort}`)
    const own = { NATS_DATA: join(folder, 'data'), TLS_CERT: made.cert, TLS_KEY: made.key }
    const args = ['-c', join(folder, 'nats', 'server.conf'), '-a', '127.0.0.1', '-p', String(port)]
    const server = await start('nats', args, { ...PASSWORDS, ...own })
    await server.said(/Server is ready/)

    const url = (role: Role) => `tls://${role}:${passwordOf(role)}@localhost:${port}`
    const trust = { NODE_EXTRA_CA_CERTS: made.cert }
    const small = {
      BATON_RUNS_MAX_BYTES: String(limits.runsMaxBytes),
      BATON_TOPICS_MAX_BYTES: String(limits.topicsMaxBytes),
    }
    const setup = await batonAnswer(url('operator'), ['setup'], { ...trust, ...small })
    expect(setup.code, setup.output).toBe(0)
    const relay = stack.use(await startRelay('relay-1', { natsUrl: url('relay'), environment: { ...trust, ...small } }))
    await relay.child.said(/"relay\.ready"/)
    // Without knowing who signed it, nobody takes it.
    const stranger = await batonAnswer(url('operator'), ['runs', 'ls'])
    expect(stranger.code).toBe(3)
    expect(stranger.output).toMatch(/self-signed certificate/)

    const ca = await readFile(made.cert)
    const upgrade = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    }
    // What a server of NATS says first, in the frame of a WebSocket.
    await new Promise<void>((resolve, reject) => {
      const asking = request({ host: 'localhost', family: 4, port: wsPort, path: '/', ca, headers: upgrade })
      asking.on('upgrade', (_response, socket, head) => {
        let heard = ''
        const hear = (chunk: Buffer) => {
          heard += chunk.toString('latin1')
          if (!heard.includes('INFO {')) return
          socket.destroy()
          resolve()
        }
        hear(head)
        socket.on('data', hear)
      })
      asking.on('response', ({ statusCode }) => reject(new Error(`answered ${statusCode}`)))
      asking.on('error', reject).end()
    })
  },
)

test('a URL that says tls is not served in clear', async () => {
  const port = await freePort()
  const server = await start('dev', ['-c', nats('dev.conf'), '-p', String(port), '-sd', join(folder, 'dev')])
  await server.said(/Server is ready/)
  const refused = await batonAnswer(`tls://baton:baton@127.0.0.1:${port}`, ['runs', 'ls'])
  expect(refused.code).toBe(3)
  expect(refused.output).toMatch(/does not support 'tls'/)
})

test('cluster.conf does not start without its passwords', async () => {
  const server = await start('nats-1', ['-c', nats('cluster.conf')], { NATS_NAME: 'nats-1', NATS_DATA: folder })
  const { code } = await server.exited
  expect(code).toBe(1)
  expect(server.output).toMatch(/NATS_[A-Z_]+_PASSWORD/)
})

test('compose.yaml runs the version the set-up brings', async () => {
  const text = await readFile(nats('compose.yaml'), 'utf8')
  const images = [...text.matchAll(/image: (\S+)/g)].map((found) => found[1])
  expect(images).toEqual(images.map(() => natsServer.image))
  expect(natsServer.image).toBe(`nats:${natsServer.pinned.slice(1)}`)
})
