import { createHash, randomBytes, randomInt } from 'node:crypto'
import { BatonError, isCode } from '@baton/core/errors'
import { readKey, readKeyAtLeader, writeKey, type Entry } from './bucket.ts'
import type { Nats } from './connect.ts'
import { BUCKET, bucketStream, keySubject } from './names.ts'
import { readLedInfo } from './led.ts'

/**
 * Tickets, which open streams at every edge. A token has a fixed number of places for them, and a ticket is the name of
 * its place and a secret: so their number is bounded without counting, and a look needs one key. Of the secret only a
 * hash is stored. That a ticket has not been opened in time, or that its token has ended, is the bucket's word: the
 * key is gone.
 */

/** Tickets of one token that may be there at the same time. */
const PLACES = 256
/** Somebody else took the place, or opened the ticket: looks again so many times. */
const ATTEMPTS = 5

export type Ticket = {
  /** Whose limits its streams count against. */
  readonly client: string
  /** What its streams may show. */
  readonly subscribe: readonly string[]
  /** The end of the token it was made from, unix ms. */
  readonly endsAtMs: number
}

type Stored = Ticket & { readonly secret: string; readonly opened: boolean }

const hash = (text: string): string => createHash('sha256').update(text).digest('base64url')
const form = /^([\w-]{22})\.(\d{1,3})\.([\w-]{43})$/

/**
 * Makes a ticket of a token. It is gone unless it is opened within `openMs`. Null where the token has as many as it may
 * have. Throws `unavailable`, `unknown_outcome`, `full`, `in_flight`.
 */
export async function makeTicket(nats: Nats, token: string, ticket: Ticket, openMs: number): Promise<string | null> {
  const owner = hash(token).slice(0, 22)
  const secret = randomBytes(32).toString('base64url')
  const value = JSON.stringify({ ...ticket, secret: hash(secret), opened: false } satisfies Stored)
  for (let attempt = 1; ; attempt++) {
    const place = await freePlace(nats, owner)
    if (place === null) return null
    try {
      await writeKey(nats, BUCKET.tickets, `${owner}.${place}`, value, { expected: 0, ttlMs: openMs })
      return `${owner}.${place}.${secret}`
    } catch (error) {
      // Another ticket of this token took the place first.
      if (!isCode(error, 'conflict', 'in_flight') || attempt >= ATTEMPTS) throw error
    }
  }
}

/** A place of this token in which nothing lies, any of them: several edges may look for one at once. */
async function freePlace(nats: Nats, owner: string): Promise<number | null> {
  const { state } = await readLedInfo(nats, bucketStream(BUCKET.tickets), keySubject(BUCKET.tickets, `${owner}.*`))
  const taken = new Set(Object.keys(state.subjects ?? {}).map((subject) => Number(subject.split('.').at(-1))))
  const free = Array.from({ length: PLACES }, (_, place) => place).filter((place) => !taken.has(place))
  return free.length === 0 ? null : (free[randomInt(free.length)] ?? null)
}

/**
 * Opens a ticket, for the first time or again; from the first time on it lives as long as its token. Null for one that
 * is none, any more or ever. Throws `unavailable`: nothing was decided.
 */
export async function openTicket(nats: Nats, text: string): Promise<Ticket | null> {
  const [, owner, place, secret] = form.exec(text) ?? []
  if (owner === undefined || place === undefined || secret === undefined) return null
  const key = `${owner}.${place}`
  const read = (entry: Entry) => readStored(entry, hash(secret))
  // That there is no such ticket ends an EventSource, so it is the word of a leader that the others still follow.
  const ask = async (): Promise<Entry> => {
    const found = await readKeyAtLeader(nats, BUCKET.tickets, key)
    if (read(found) === null) await readLedInfo(nats, bucketStream(BUCKET.tickets))
    return found
  }
  let entry = await readKey(nats, BUCKET.tickets, key)
  if (read(entry) === null) entry = await ask()
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const found = read(entry)
    if (found === null) return null
    if (found.opened) return found
    try {
      const ttlMs = Math.max(1000, found.endsAtMs - Date.now())
      const value = JSON.stringify({ ...found, opened: true } satisfies Stored)
      await writeKey(nats, BUCKET.tickets, key, value, { expected: entry.revision, ttlMs })
      return found
    } catch (error) {
      // It was opened elsewhere at the same moment, or went: the leader knows.
      if (!isCode(error, 'conflict', 'in_flight', 'unknown_outcome')) throw error
      entry = await ask()
    }
  }
  throw new BatonError('unavailable', 'a ticket could not be opened')
}

function readStored({ value }: Entry, secret: string): Stored | null {
  if (value === null) return null
  try {
    const stored = JSON.parse(value) as Partial<Stored> | null
    if (stored?.secret !== secret || typeof stored.client !== 'string' || typeof stored.opened !== 'boolean')
      return null
    const { client, subscribe, endsAtMs, opened } = stored
    if (typeof endsAtMs !== 'number' || !Array.isArray(subscribe)) return null
    return { client, subscribe: subscribe.filter((one) => typeof one === 'string'), endsAtMs, secret, opened }
  } catch {
    return null
  }
}
