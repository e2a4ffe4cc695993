import { setTimeout as delay } from 'node:timers/promises'
import { connectNats, type Nats } from '@baton/store/connect'
import { STREAM } from '@baton/store/names'
import type { Stored } from '../kit/check-follower.ts'
import type { Published } from '../kit/check-published.ts'
import { eventually } from '../kit/eventually.ts'
import { readMessages } from '../kit/read-log.ts'
import { writeTopic } from '../kit/topics.ts'
import type { World } from './world.ts'

/** Who asks again with the same key must do so within the window of de-duplication, with much to spare. */
const GIVE_UP_MS = 45_000
const ANSWER_MS = 4000

/** Publishers of topics: at an edge with a key and without, many at once, and natively; each notes what it was told. */
export class TopicTraffic {
  readonly published: Published[] = []
  readonly topics: readonly string[]
  readonly #world: World
  readonly #nats: Nats
  readonly #name: string
  readonly #from: number
  readonly #over = new AbortController()
  readonly #working: Promise<void>

  private constructor(world: World, nats: Nats, name: string, from: number, everyMs: number) {
    this.#world = world
    this.#nats = nats
    this.#name = name
    this.#from = from
    this.topics = ['orders.1', 'orders.2', 'labels.7'].map((topic) => `${name}.${topic}`)
    this.#working = this.#publish(everyMs)
  }

  static async start(world: World, name: string, everyMs: number): Promise<TopicTraffic> {
    const servers = world.servers.map(({ url }) => url)
    const nats = await connectNats({ servers, name: 'test-publisher' }, AbortSignal.timeout(20_000))
    const { state } = await nats.jsm.streams.info(STREAM.topics)
    return new TopicTraffic(world, nats, name, state.last_seq + 1, everyMs)
  }

  /** What follows all of it, and one topic of it. */
  get filters(): readonly string[] {
    return [`${this.#name}.>`, `${this.#name}.*.1`]
  }

  async #publish(everyMs: number): Promise<void> {
    const open = new Set<Promise<void>>()
    for (let at = 0; !this.#over.signal.aborted; at++) {
      const one = this.#one(at).finally(() => open.delete(one))
      open.add(one)
      // What waits for an answer is bounded: while nothing answers, nothing more is asked.
      if (open.size >= 50) await Promise.race(open)
      await delay(everyMs)
    }
    await Promise.all(open)
  }

  async #one(at: number): Promise<void> {
    const topic = this.topics[at % this.topics.length] ?? ''
    const data = `${topic} #${at}`
    if (at % 10 === 9) return this.#natively(topic, data)
    if (at % 10 === 8) return this.#several(at)
    if (at % 10 === 7) return this.#note(topic, data, await this.#post(`/topics/${topic}`, data, at, {}))
    const untilMs = performance.now() + GIVE_UP_MS
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#post(`/topics/${topic}`, data, at + attempt, {
        'idempotency-key': `${this.#name}-${at}`,
      })
      if (answer !== null || performance.now() > untilMs) return this.#note(topic, data, answer)
      await delay(200)
    }
  }

  async #several(at: number): Promise<void> {
    const events = this.topics.map((topic) => ({ topic, data: `${topic} #${at}` }))
    const answer = (await this.#post('/topics', JSON.stringify(events), at, { 'content-type': 'application/json' })) as
      | readonly { sequence: number }[]
      | null
    for (const [place, { topic, data }] of events.entries()) this.#note(topic, data, answer?.[place] ?? null)
  }

  async #natively(topic: string, data: string): Promise<void> {
    const sequence = await writeTopic(this.#nats, topic, data).catch(() => null)
    this.#note(topic, data, sequence === null ? null : { sequence })
  }

  #note(topic: string, data: string, answer: unknown): void {
    const sequence = (answer as { sequence?: number } | null)?.sequence ?? null
    this.published.push({ topic, data, outcome: sequence === null ? 'unknown' : 'acked', sequence })
  }

  /** What an edge said in a 2xx; null for everything else: nothing is known then. */
  async #post(path: string, body: string, at: number, headers: Record<string, string>): Promise<unknown> {
    const urls = this.#world.edgeUrls
    try {
      const url = `${urls[at % urls.length]}${path}`
      const response = await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(ANSWER_MS) })
      const answer = await response.json()
      return response.ok ? answer : null
    } catch {
      return null
    }
  }

  /** Nothing more is published. Answers what is stored. */
  async end(): Promise<readonly Stored[]> {
    this.#over.abort()
    await this.#working
    return this.read()
  }

  /**
   * What is stored now of this wave's topics; an event that nobody has answered for may still come, from an edge that has it
   * under way, and one of an earlier wave may have come since.
   */
  async read(): Promise<readonly Stored[]> {
    const { state } = await eventually('topics have a leader', () => this.#nats.jsm.streams.info(STREAM.topics))
    return eventually('all that is stored of topics is read', async () => {
      const stored: Stored[] = []
      let last = this.#from - 1
      for await (const { seq, subject, data } of readMessages(this.#nats, STREAM.topics, this.#from)) {
        last = seq
        const of = subject.replace(/^topic\./, '')
        if (this.topics.includes(of)) stored.push({ sequence: seq, of, data: new TextDecoder().decode(data) })
      }
      return last >= state.last_seq ? stored : null
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort()
    await this.#working
    await this.#nats.nc.close()
  }
}
