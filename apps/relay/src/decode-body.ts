import { pipeline, type Readable, type Transform } from 'node:stream'
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'

const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH } = constants

/** A body that is cut is an ordinary end for a tail, so an unfinished tail of compressed bytes is no error. */
const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', () => createGunzip({ finishFlush: Z_SYNC_FLUSH })],
  ['x-gzip', () => createGunzip({ finishFlush: Z_SYNC_FLUSH })],
  ['deflate', () => createInflate({ finishFlush: Z_SYNC_FLUSH })],
  ['br', () => createBrotliDecompress({ finishFlush: BROTLI_OPERATION_FLUSH })],
])

/**
 * The plain bytes of a body: some servers compress although they were asked for `identity`. Null for an encoding not
 * known here. Errors of the body arrive at whoever reads the result; with no reader they harm nothing.
 */
export function decodeBody(body: Readable, encoding: string | undefined): Readable | null {
  const name = encoding?.trim().toLowerCase() ?? ''
  body.on('error', () => undefined)
  if (name === '' || name === 'identity') return body
  const decoder = decoders.get(name)?.()
  if (decoder === undefined) return null
  decoder.on('error', () => undefined)
  return pipeline(body, decoder, () => undefined)
}
