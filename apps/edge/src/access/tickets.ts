import { createHash } from 'node:crypto'
import { BatonError } from '@baton/core/errors'
import { NO_GRANTS } from '@baton/core/grants'
import type { Nats } from '@baton/store/connect'
import { makeTicket, openTicket, type Ticket } from '@baton/store/ticket-store'
import { neighbourhood } from '../client-address.ts'
import { Problem } from '../problem.ts'
import { Rates } from '../rates.ts'
import { lastsMs, unauthorized, type Access } from './access.ts'

/** Opened tickets that are known here without asking again; the one used longest ago is forgotten first. */
const MAX_KNOWN = 10_000
/** Wrong tickets one address may show per second before it has to wait: each costs three questions to NATS. */
const WRONG_PER_SECOND = 20

/** Tickets, which stand for the right of a token to follow: an EventSource can send no header. */
export class Tickets {
  readonly #openMs: number
  /** By a hash, so that not even a dump of this process holds a ticket for long. */
  readonly #known = new Map<string, Ticket>()
  readonly #wrong = new Rates(WRONG_PER_SECOND, 0)
  readonly #made: Rates

  /** `openMs`: how long a ticket waits to be opened; `perSecond`: how many one client may make, 0 = no limit. */
  constructor(openMs: number, perSecond: number) {
    this.#openMs = openMs
    this.#made = new Rates(perSecond, 0)
  }

  /** Throws the 429, and what the store throws. */
  async make(nats: Nats, access: Access & { token: string; endsAtMs: number }) {
    if (!this.#made.take(access.client, performance.now())) throw tooMany('tickets per second', 1)
    const { client, token, endsAtMs } = access
    const openMs = Math.min(this.#openMs, lastsMs(access))
    const expiresAt = new Date(Date.now() + openMs).toISOString()
    const ticket = await makeTicket(nats, token, { client, subscribe: access.grants.subscribe, endsAtMs }, openMs)
    if (ticket === null) throw tooMany('tickets of one token', 60)
    return { ticket, expiresAt, endsAt: new Date(endsAtMs).toISOString() }
  }

  /** What a ticket opens. Throws the 401, the 429 for an address that guesses, and `unavailable`. */
  async open(nats: () => Nats, text: string, address: string): Promise<Access> {
    const key = createHash('sha256').update(text).digest('base64url')
    const found = this.#known.get(key) ?? (await this.#ask(nats(), text, address))
    const access: Access = {
      client: found.client,
      grants: { ...NO_GRANTS, subscribe: found.subscribe },
      endsAtMs: found.endsAtMs,
      token: null,
    }
    this.#known.delete(key)
    if (lastsMs(access) <= 0) throw unauthorized('the token of this ticket has expired')
    this.#known.set(key, found)
    const [oldest] = this.#known.keys()
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest)
    return access
  }

  async #ask(nats: Nats, text: string, address: string): Promise<Ticket> {
    const whom = neighbourhood(address)
    const found = this.#wrong.isOver(whom, performance.now()) ? 'guessing' : await ask(nats, text)
    if (found === 'guessing') throw tooMany('wrong tickets per second', 1)
    if (found !== null) return found
    this.#wrong.take(whom, performance.now())
    throw unauthorized('no such ticket, or it was not opened in time, or its token has ended')
  }
}

/** Where nothing can be decided now, whatever the store calls it, the client has to come back. */
async function ask(nats: Nats, text: string): Promise<Ticket | null> {
  try {
    return await openTicket(nats, text)
  } catch (error) {
    if (!(error instanceof BatonError)) throw error
    throw new BatonError('unavailable', 'a ticket could not be looked up', { cause: error })
  }
}

const tooMany = (what: string, seconds: number): Problem =>
  new Problem(429, 'limit', `too many ${what}; try again later`, { 'retry-after': String(seconds) })
