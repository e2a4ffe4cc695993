/**
 * A place in a log, as clients carry it: `<sequence>-<mark>` in the SSE `id:` line and in Last-Event-ID.
 * The mark of a run is the event's index; that of topics and of several runs the NATS time of the message, unix ms.
 * An id says "I have everything up to and with this".
 */
export type Position = { readonly sequence: number; readonly mark: number }

/** At most 40 characters: longer ids make browsers send a CORS preflight when they reconnect. */
const form = /^(0|[1-9]\d{0,15})-(0|[1-9]\d{0,15})$/

export const formatPosition = ({ sequence, mark }: Position): string => `${sequence}-${mark}`

/** Null for whatever is not of the form; a client's header is untrusted input. */
export function parsePosition(text: string): Position | null {
  const found = form.exec(text)
  if (found === null) return null
  const [sequence, mark] = [Number(found[1]), Number(found[2])]
  return Number.isSafeInteger(sequence) && Number.isSafeInteger(mark) ? { sequence, mark } : null
}
