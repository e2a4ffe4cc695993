/** Would this Accept header take an event stream? None, or an empty one, takes anything (RFC 9110 §12.5.1). */
export function acceptsStream(accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  const wanted = new Map(
    accept.split(',').map((part) => {
      const [range = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
      const quality = parameters.find((one) => one.startsWith('q='))
      return [range, quality === undefined ? 1 : Number(quality.slice(2))] as const
    }),
  )
  const quality = wanted.get('text/event-stream') ?? wanted.get('text/*') ?? wanted.get('*/*') ?? 0
  return quality > 0
}

/**
 * A browser's EventSource gives up for good on any status but 200, so what looks like one is told in the stream what
 * others are told by the status.
 */
export const isEventSource = (accept: string | undefined, batonClient: string | undefined): boolean =>
  batonClient === undefined && accept !== undefined && /text\/event-stream/i.test(accept)
