import type { Msg } from '@nats-io/nats-core'

/**
 * The headers of a message, looked up in the bytes they came in. nats.js 3.4.0 builds a map that searches all its keys at
 * every append and every look-up: a dozen headers cost 20 µs an event, more than everything else done with it, and a
 * relay that takes over 500 runs reads back all their events.
 */
export class RawHeaders {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** The value as it stands, or null. Names are matched as written: ours are always written the same. */
  find(name: string): string | null {
    return this.#valueAt(this.#text.indexOf(lineOf(name)), name)
  }

  /**
   * The same of what the server has added. That stands behind what a publisher has put there under the same name: one who
   * copies messages from another NATS copies their places there.
   */
  stamped(name: string): string | null {
    return this.#valueAt(this.#text.lastIndexOf(lineOf(name)), name)
  }

  #valueAt(at: number, name: string): string | null {
    if (at === -1) return null
    const from = at + lineOf(name).length
    return this.#text.slice(from, this.#text.indexOf('\r\n', from)).trim()
  }

  /** The status the server put into the first line, e.g. 204 at the end of a batch; 0 for a message. */
  get status(): number {
    return Number(/^NATS\/1\.0 (\d{3})/.exec(this.#text)?.[1] ?? 0)
  }
}

const lineOf = (name: string): string => `\r\n${name}:`

const utf8 = new TextDecoder()

/**
 * Null for a message without headers. They lie before the data in the same buffer, and the message knows its whole size
 * (a method of nats.js's messages that its types leave out); without it the parsed headers are written out again.
 */
export function rawHeaders(message: Msg & { size?: () => number }): RawHeaders | null {
  const { data } = message
  if (message.size === undefined) {
    // oxlint-disable-next-line no-base-to-string -- headers write themselves out by toString, which their type leaves out
    return message.headers === undefined ? null : new RawHeaders(String(message.headers))
  }
  const length = message.size() - message.subject.length - (message.reply?.length ?? 0) - data.byteLength
  if (length <= 0) return null
  return new RawHeaders(utf8.decode(new Uint8Array(data.buffer, data.byteOffset - length, length)))
}
