/** One frame as it stood on the wire. A field that was not sent is null. */
export type Frame = {
  readonly id: string | null
  readonly event: string | null
  readonly data: string | null
  readonly retryMs: number | null
  readonly comments: readonly string[]
}

/**
 * Reads server-sent events as a suspicious reviewer would: what a browser forgives is an error here. Written apart
 * from the product's own parser, so that one mistake cannot hide in both.
 */
export class StrictSse {
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })
  #rest = ''
  #block: string[] = []

  /** The frames that these bytes complete; a heartbeat (a block of comments only) is one without fields. */
  push(bytes: Uint8Array): Frame[] {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true })
    const lines = text.split('\n')
    this.#rest = lines.pop() ?? ''
    const frames: Frame[] = []
    for (const line of lines) {
      if (line.includes('\r')) throw new Error(`a CR in the line ${JSON.stringify(line)}`)
      if (line !== '') this.#block.push(line)
      else if (this.#block.length > 0) frames.push(readBlock(this.#block.splice(0)))
      else throw new Error('an empty block')
    }
    return frames
  }

  /** What came after the last whole frame: after a proper end of the response, nothing. */
  get unfinished(): string {
    return [...this.#block, this.#rest].filter((line) => line !== '').join('\n')
  }
}

function readBlock(lines: readonly string[]): Frame {
  let [id, event, retryMs]: [string | null, string | null, number | null] = [null, null, null]
  const data: string[] = []
  const comments: string[] = []
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === '') comments.push(value)
    else if (name === 'data') data.push(value)
    else if (name === 'id' && id === null) id = value
    else if (name === 'event' && event === null) event = value
    else if (name === 'retry' && retryMs === null && /^\d+$/.test(value)) retryMs = Number(value)
    else throw new Error(`an unexpected line ${JSON.stringify(line)} in ${JSON.stringify(lines)}`)
  }
  return { id, event, data: data.length === 0 ? null : data.join('\n'), retryMs, comments }
}
