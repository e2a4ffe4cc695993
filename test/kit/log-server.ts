import { createLog } from '@baton/service/log'
import { connectNats, type Nats } from '@baton/store/connect'
import { makeTopology } from '@baton/store/make-topology'
import { STREAM } from '@baton/store/names'
import { ensureTopology, type TopologyOptions } from '@baton/store/topology'
import { NatsServer } from './nats-server.ts'

export const SMALL_TOPOLOGY: TopologyOptions = {
  replicas: 1,
  runEvents: 10_000,
  runsMaxAgeMs: 86_400_000,
  runsMaxBytes: 64 * 2 ** 20,
  topicEvents: 1000,
  topicsMaxAgeMs: 86_400_000,
  topicsMaxBytes: 64 * 2 ** 20,
}

/** Makes the streams and buckets on a cluster, which may not have met all its peers yet. */
export const makeReplicas = (nats: Nats): Promise<void> =>
  makeTopology(nats, { ...SMALL_TOPOLOGY, replicas: 3 }, createLog('test', 'silent'), AbortSignal.timeout(30_000))

/** A nats-server with Baton's streams and buckets, and a connection to it. */
export class LogServer {
  readonly server: NatsServer
  readonly nats: Nats

  private constructor(server: NatsServer, nats: Nats) {
    this.server = server
    this.nats = nats
  }

  static async start(options: Partial<TopologyOptions> = {}): Promise<LogServer> {
    const server = await NatsServer.start()
    const nats = await connectNats({ servers: [server.url], name: 'baton-test' }, AbortSignal.timeout(10_000))
    await ensureTopology(nats, { ...SMALL_TOPOLOGY, ...options })
    return new LogServer(server, nats)
  }

  /** From now on nothing stored is heard live; the log itself answers as ever. */
  async silence(): Promise<void> {
    const { config } = await this.nats.jsm.streams.info(STREAM.runs)
    const republish = { src: 'run.none', dest: 'live.run.none' }
    await this.nats.jsm.streams.update(STREAM.runs, { ...config, republish })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.nats.nc.close()
    await this.server[Symbol.asyncDispose]()
  }
}
