import type { MiddlewareHandler } from 'hono'
import type { EdgeEnv } from './app.ts'
import { neighbourhood } from './client-address.ts'
import type { Edge } from './edge.ts'

/** What the bodies of all requests may hold together until they are answered, and those of one client. */
const ALL_BYTES = 256 * 2 ** 20
const CLIENT_BYTES = 64 * 2 ** 20
/** Each part that came by itself costs about this much beside its bytes: a client may send them one by one. */
const PART_BYTES = 256

/** What one request holds. */
export type Held = {
  /** Counts a part of so many bytes; false where there is no more room, for this client or at all. */
  add(bytes: number): boolean
  /** The request has been answered. */
  release(): void
}

/** What the bodies of requests hold: one client that sends many, and ends none, leaves room for the others. */
export class Bodies {
  #all = 0
  readonly #clients = new Map<string, number>()

  get bytes(): number {
    return this.#all
  }

  hold(client: string): Held {
    let mine = 0
    return {
      add: (bytes) => {
        const more = bytes + PART_BYTES
        const theirs = (this.#clients.get(client) ?? 0) + more
        if (theirs > CLIENT_BYTES || this.#all + more > ALL_BYTES) return false
        mine += more
        this.#all += more
        this.#clients.set(client, theirs)
        return true
      },
      release: () => {
        const left = (this.#clients.get(client) ?? 0) - mine
        this.#all -= mine
        mine = 0
        if (left > 0) this.#clients.set(client, left)
        else this.#clients.delete(client)
      },
    }
  }
}

/** Gives every request what its body is counted by, and takes it back when there is an answer. */
export const holdBodies =
  ({ bodies }: Edge): MiddlewareHandler<EdgeEnv> =>
  async (c, next) => {
    const held = bodies.hold(neighbourhood(c.get('access').client))
    c.set('held', held)
    try {
      await next()
    } finally {
      held.release()
    }
  }
