import { isCode } from '@baton/core/errors'
import { connectNats, type Nats } from '@baton/store/connect'
import { append, assertOwner, type Fence } from '@baton/store/write-log'
import { createLog } from '@baton/service/log'
import { makeTopology } from '@baton/store/make-topology'
import { SMALL_TOPOLOGY } from '../kit/log-server.ts'
import { NatsCluster } from '../kit/nats-cluster.ts'
import { NatsServer } from '../kit/nats-server.ts'
import { runEvent } from '../kit/write-events.ts'
import type { Row } from './measure.ts'

const RUNS = 16
const FOR_MS = 5000
const BATCH = 100

/** Events a second that are acknowledged to so many runs together, each with one append of `size` events in flight. */
async function rate(nats: Nats, fences: readonly Fence[], size: number): Promise<number> {
  const startedAtMs = performance.now()
  const stored = await Promise.all(
    fences.map(async (fence) => {
      let index = 0
      while (performance.now() - startedAtMs < FOR_MS) {
        const events = Array.from({ length: size }, (_, at) => runEvent(index + at + 1, { epoch: fence.epoch }))
        // On replicas the one before may not have let go of the fence when its ack is here: nothing was stored, ask again.
        const sequence = await append(nats, fence, events, 5000).catch((error: unknown) => {
          if (!isCode(error, 'in_flight')) throw error
          return null
        })
        if (sequence !== null) index += size
      }
      return index
    }),
  )
  const seconds = (performance.now() - startedAtMs) / 1000
  return Math.round(stored.reduce((sum, one) => sum + one, 0) / seconds)
}

type Rates = { readonly single: number; readonly batched: number }

async function ratesAt(url: string, replicas: number): Promise<Rates> {
  const nats = await connectNats({ servers: url.split(','), name: 'bench' }, AbortSignal.timeout(20_000))
  const topology = { ...SMALL_TOPOLOGY, replicas, runsMaxBytes: 2 ** 30 }
  await makeTopology(nats, topology, createLog('bench', 'silent'), AbortSignal.timeout(30_000))
  const owner = { relay: 'bench', boot: 'bench', since: new Date().toISOString() }
  const fences = await Promise.all(
    Array.from({ length: RUNS }, async (_, at): Promise<Fence> => {
      const run = `bench-${at}`
      return { run, epoch: await assertOwner(nats, run, 0, owner) }
    }),
  )
  const single = await rate(nats, fences, 1)
  const batched = await rate(nats, fences, BATCH)
  await nats.nc.close()
  return { single, batched }
}

async function one(sync: string): Promise<Rates> {
  // Streams reserve their max_bytes: the block replaces that of the configuration, limit included.
  await using server = await NatsServer.start({
    extra: `jetstream { max_file_store: 64GB, sync_interval: ${sync} }`,
  })
  return await ratesAt(server.url, 1)
}

async function three(syncInterval: string): Promise<Rates> {
  await using cluster = await NatsCluster.start({ syncInterval })
  return await ratesAt(cluster.url, 3)
}

/** What `sync_interval: always` costs: the figures are this disk's, the ratio says more. */
async function cost(what: string, measured: (sync: string) => Promise<Rates>): Promise<Row> {
  const [usual, always] = [await measured('"120s"'), await measured('always')]
  return {
    what,
    figures: {
      default_per_s: usual.single,
      always_per_s: always.single,
      ratio: (usual.single / always.single).toFixed(1),
      default_batched_per_s: usual.batched,
      always_batched_per_s: always.batched,
      batched_ratio: (usual.batched / always.batched).toFixed(1),
    },
  }
}

export const durabilityBenches = {
  'sync_interval always, one server': () => cost('sync_interval always, one server', one),
  'sync_interval always, three replicas': () => cost('sync_interval always, three replicas', three),
}
