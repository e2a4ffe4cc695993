import { Problem } from './problem.ts'

/** The whole body of a request as text, whatever bytes it holds. */
export const readBody = async (request: Request, limitBytes: number): Promise<string> =>
  new TextDecoder().decode(await readBytes(request, limitBytes))

/**
 * The whole body of a request. Whether its length was announced or not, no more than `limitBytes` of it is held: a
 * longer one is a problem 413.
 */
export async function readBytes(request: Request, limitBytes: number): Promise<Buffer> {
  // The rest of the body is still on its way, so the connection cannot be used again.
  const tooLarge = () => new Problem(413, 'too_large', `at most ${limitBytes} bytes`, { connection: 'close' })
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge()
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of request.body ?? []) {
      bytes += part.byteLength
      if (bytes > limitBytes) throw tooLarge()
      parts.push(part)
    }
  } catch (error) {
    if (error instanceof Problem) throw error
    // Whoever likes can break off: that is no failure of this process, and not for its log.
    throw new Problem(400, 'invalid', 'the body came only in part', { connection: 'close' })
  }
  return Buffer.concat(parts)
}
