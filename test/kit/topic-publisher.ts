import { setTimeout as delay } from 'node:timers/promises'

/** What an edge has answered for one event: where it is stored. */
export type Published = { readonly number: number; readonly sequence: number }

type PublishOptions = {
  /** The edge, or what stands before it. */
  readonly url: string
  readonly topic: string
  readonly count: number
  readonly everyMs: number
}

const RETRY_MS = 50

/**
 * Publishes so many numbered events to a topic, one after another, at a steady rate that it catches up with when it was
 * held up. Without a 2xx an event is sent again, under the same key, until there is one.
 */
export async function publishSteadily(options: PublishOptions, signal: AbortSignal): Promise<readonly Published[]> {
  const published: Published[] = []
  const startMs = performance.now()
  for (let number = 1; number <= options.count; number++) {
    const earlyMs = startMs + (number - 1) * options.everyMs - performance.now()
    if (earlyMs > 0) await delay(earlyMs, undefined, { signal })
    published.push({ number, sequence: await publish(options, number, signal) })
  }
  return published
}

async function publish({ url, topic }: PublishOptions, number: number, signal: AbortSignal): Promise<number> {
  for (;;) {
    signal.throwIfAborted()
    const sequence = await tryToPublish(`${url}/topics/${topic}`, `${topic} ${number}`)
    if (sequence !== null) return sequence
    await delay(RETRY_MS, undefined, { signal })
  }
}

/** Null where nobody has said that it is stored; a refusal that no repetition mends is an error. */
async function tryToPublish(url: string, text: string): Promise<number | null> {
  const headers = { 'idempotency-key': text, 'content-type': 'text/plain' }
  const asking = { method: 'POST', headers, body: text, signal: AbortSignal.timeout(5000) }
  const response = await fetch(url, asking).catch(() => null)
  if (response === null) return null
  const answer = await response.text().catch(() => null)
  if (answer === null) return null
  if (response.ok) return (JSON.parse(answer) as { sequence: number }).sequence
  if (response.status !== 429 && response.status < 500) throw new Error(`POST ${url}: ${response.status} ${answer}`)
  return null
}
