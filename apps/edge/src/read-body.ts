import { BatonError } from '@baton/core/errors'
import type { Held } from './bodies.ts'
import { Problem } from './problem.ts'

/**
 * The whole body of a request as text: the 413 and the 429 as `readBytes` throws them, and a 400 for what is no UTF-8. A byte order mark
 * is `data` where the body is stored as it came; else it says how to read what follows, and is passed by.
 */
export async function readText(request: Request, limitBytes: number, held: Held, mark?: 'data'): Promise<string> {
  const bytes = await readBytes(request, limitBytes, held)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: mark === 'data' }).decode(bytes)
  } catch {
    throw new BatonError('invalid', 'the body is not UTF-8 text')
  }
}

/**
 * The whole body of a request. Whether its length was announced or not, no more than `limitBytes` of it is held: a
 * longer one is a problem 413, and one for which there is no room beside the others a 429.
 */
export async function readBytes(request: Request, limitBytes: number, held: Held): Promise<Buffer> {
  // The rest of the body is still on its way, so the connection cannot be used again.
  const tooLarge = () => new Problem(413, 'too_large', `at most ${limitBytes} bytes`, { connection: 'close' })
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge()
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of request.body ?? []) {
      bytes += part.byteLength
      if (bytes > limitBytes) throw tooLarge()
      if (!held.add(part.byteLength)) throw noRoom()
      parts.push(part)
    }
  } catch (error) {
    if (error instanceof Problem) throw error
    // Whoever likes can break off: that is no failure of this process, and not for its log.
    throw new Problem(400, 'invalid', 'the body came only in part', { connection: 'close' })
  }
  return Buffer.concat(parts)
}

const noRoom = (): Problem =>
  new Problem(429, 'limit', 'too many bytes are on their way here; try again later', {
    'retry-after': '1',
    connection: 'close',
  })
