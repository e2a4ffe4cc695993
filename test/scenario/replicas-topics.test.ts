import { STREAM } from '@baton/store/names'
import { expect } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { NODES } from '../kit/nats-cluster.ts'
import { ManyRuns } from '../kit/many-runs.ts'
import { readReplica, type ReplicaMessage } from '../kit/read-replica.ts'
import { SseClient } from '../kit/sse-client.ts'
import { testWithSystem, type System } from '../kit/system.ts'

/** Topics, sets and registrations with three replicas, while the nodes die that lead them. */
const test = testWithSystem({
  relays: 2,
  edges: 2,
  cluster: {},
  // Nothing is to be trimmed, however fast the publishers are.
  environment: { BATON_TOPIC_EVENTS: '1000000', BATON_PUBLISH_PER_SECOND: '0' },
})

type Answer = { readonly status: number; readonly sequence: number | null }

/** Publishes one event under a key of its own; null where there was no answer. */
async function publish(system: System, topic: string, data: string): Promise<Answer | null> {
  try {
    const response = await fetch(system.edgeUrl(`/topics/${topic}`), {
      method: 'POST',
      headers: { 'idempotency-key': data },
      body: data,
    })
    const body = (await response.json()) as { sequence?: number }
    return { status: response.status, sequence: body.sequence ?? null }
  } catch {
    return null
  }
}

/** Publishers that give an event up only when its publish was answered with success; they keep every answer. */
class Publishers {
  readonly answers: (Answer & { readonly data: string })[] = []
  readonly #system: System
  readonly #topics: readonly string[]
  readonly #working: Promise<unknown>
  #over = false

  constructor(system: System, topics: readonly string[], count: number) {
    this.#system = system
    this.#topics = topics
    this.#working = Promise.all(Array.from({ length: count }, (_, at) => this.#work(at)))
  }

  get stored(): number {
    return this.answers.filter(({ status }) => status < 300).length
  }

  async #work(publisher: number): Promise<void> {
    for (let number = 1; !this.#over; number++) {
      const topic = this.#topics[number % this.#topics.length] ?? ''
      const data = `${topic} ${publisher} ${number}`
      await eventually(
        `${data} is stored`,
        async () => {
          const answer = await publish(this.#system, topic, data)
          if (answer !== null) this.answers.push({ ...answer, data })
          return answer !== null && answer.status < 300
        },
        { withinMs: 60_000 },
      )
    }
  }

  /** Waits until so many more are stored. */
  async more(count: number): Promise<void> {
    const had = this.stored
    await eventually(`${count} more events are stored`, () => this.stored >= had + count, { withinMs: 60_000 })
  }

  async finish(): Promise<void> {
    this.#over = true
    await this.#working
  }
}

const text = ({ data }: ReplicaMessage): string => new TextDecoder().decode(data)

test('I4: what is published through elections is stored once, where the 2xx said, on every node; else the answer is 503', async ({
  system,
  run,
}) => {
  const topic = `elected.${run}`
  const publishers = new Publishers(system, [topic], 8)
  await publishers.more(100)
  for (let kill = 1; kill <= 2; kill++) {
    const leader = await system.cluster.leaderOf(STREAM.topics)
    await leader.kill()
    await publishers.more(100)
    await leader.start()
    await system.cluster.healthy()
  }
  await publishers.finish()
  expect(
    [...new Set(publishers.answers.map(({ status }) => status))].filter((one) => ![200, 201].includes(one)),
  ).toEqual(expect.arrayContaining([503]))
  expect(publishers.answers.filter(({ status }) => ![200, 201, 503].includes(status))).toEqual([])
  const stored = publishers.answers.filter(({ status }) => status !== 503)
  await system.cluster.healthy()
  for (const node of NODES) {
    const messages = (await readReplica(system.store, STREAM.topics, node)).filter(
      ({ subject }) => subject === `topic.${topic}`,
    )
    const at = new Map(messages.map((message) => [message.sequence, text(message)]))
    expect(stored.filter(({ sequence, data }) => at.get(sequence ?? 0) !== data)).toEqual([])
    expect(new Set(messages.map(text)).size).toBe(messages.length)
  }
})

test('I2: topics, sets and wildcards stay consecutive through the loss of each node', async ({ system, run }) => {
  const topics = ['a', 'b', 'c'].map((name) => `lost-${name}.${run}`)
  const urls = (query: string) => system.edges.map((edge) => `${edge.url}/topics/events?${query}`)
  const asked = [
    { query: `topic=${topics[0]}`, subjects: topics.slice(0, 1) },
    { query: `topic=${topics[0]}&topic=${topics[1]}`, subjects: topics.slice(0, 2) },
    { query: `topic=*.${run}`, subjects: topics },
  ]
  const clients = asked.map(({ query }) => new SseClient({ urls: urls(`${query}&from=start`) }))
  await Promise.all(clients.map((client) => client.until('it is open', ({ event }) => event === 'stream.open')))
  const publishers = new Publishers(system, topics, 4)
  const flow = async () => {
    const had = clients.map((client) => client.events.length)
    await Promise.all(clients.map((client, at) => client.untilEvents((had[at] ?? 0) + 30, 60_000)))
  }
  await flow()
  for (const node of system.cluster.nodes) {
    await node.kill()
    await flow()
    await node.start()
    await system.cluster.healthy()
  }
  await publishers.finish()
  const log = await readReplica(system.store, STREAM.topics, 'nats-1')
  for (const [at, { subjects }] of asked.entries()) {
    const wanted = log.filter(({ subject }) => subjects.includes(subject.slice('topic.'.length))).map(text)
    const client = clients[at] as SseClient
    // Where some are missing, the place below says which.
    await client.untilEvents(wanted.length, 60_000).catch(() => undefined)
    const got = client.events.map(({ data }) => data)
    // The first place where they part says more than a list of hundreds.
    const place = wanted.findIndex((one, at) => one !== got[at])
    expect(place === -1 ? [] : [place, got.slice(place - 1, place + 3), wanted.slice(place - 1, place + 3)]).toEqual([])
    expect(got.length).toBe(wanted.length)
    expect(client.frames.filter(({ event }) => event === 'stream.reset')).toEqual([])
    await client.close()
    expect(client.breach).toBeNull()
  }
})

test('I2: several runs on one connection stay consecutive through the loss of each node', async ({ system, run }) => {
  await using runs = await ManyRuns.start(system, run, 3, { events: 2400, perSecond: 40 })
  const query = runs.followed.map(({ run: one }) => `run=${one}`).join('&')
  const client = new SseClient({ urls: system.edges.map((edge) => `${edge.url}/runs/events?${query}&from=start`) })
  for (const node of system.cluster.nodes) {
    await node.kill()
    await Promise.all([runs.flow(), client.untilEvents(client.events.length + 30, 60_000)])
    await node.start()
    await system.cluster.healthy()
  }
  const logs = await runs.finish()
  await client.done
  const wanted = [...logs.values()]
    .flat()
    .filter((entry) => entry.kind === 'event')
    .map(({ sequence, event }) => [sequence, event.run, event.index])
    .filter(([, name]) => runs.followed.some((one) => one.run === name))
    .toSorted(([one], [other]) => Number(one) - Number(other))
  const got = client.events.map(({ data, id, event }) => {
    const value = JSON.parse(data ?? '') as { run: string; index?: number }
    return [Number(id?.split('-')[0]), value.run, event === 'stream.end' ? null : value.index]
  })
  expect(got.map(([sequence, name]) => [sequence, name])).toEqual(wanted.map(([sequence, name]) => [sequence, name]))
})

test('I4: a registration that was answered 201 through an election is relayed to its end', async ({ system, run }) => {
  const leader = await system.cluster.leaderOf('KV_runs')
  const register = async (name: string): Promise<string> => {
    const { url } = system.agents.job(name, { events: 5, perSecond: 0 })
    await eventually(
      `${name} is registered`,
      async () => {
        const { ok, status } = await system.post('/runs', { run: name, url })
        // What was stored without an answer may have come to its end before it is asked for again.
        return ok || status === 409
      },
      { withinMs: 60_000 },
    )
    return name
  }
  const names: string[] = []
  const registering = (async () => {
    for (let at = 1; at <= 30; at++) names.push(await register(`${run}-${at}`))
  })()
  await eventually('some are registered', () => names.length >= 5)
  await leader.kill()
  await registering
  await leader.start()
  for (const name of names) {
    await eventually(`${name} has ended`, async () => (await system.show(name)).state === 'ended', { withinMs: 60_000 })
  }
})
