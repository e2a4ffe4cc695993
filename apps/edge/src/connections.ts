/** Streams and waiting requests, counted for each client: one that opens all it can leaves room for the others. */
export class Connections {
  readonly #perClient: number
  readonly #counts = new Map<string, number>()

  /** 0 = no limit. */
  constructor(perClient: number) {
    this.#perClient = perClient
  }

  /** Counts one more and returns what takes it back, once; null where this client has as many as it may have. */
  enter(client: string): (() => void) | null {
    const count = this.#counts.get(client) ?? 0
    if (this.#perClient > 0 && count >= this.#perClient) return null
    this.#counts.set(client, count + 1)
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      const left = (this.#counts.get(client) ?? 1) - 1
      if (left > 0) this.#counts.set(client, left)
      else this.#counts.delete(client)
    }
  }

  /** Clients that have any. */
  get clients(): number {
    return this.#counts.size
  }
}
