import type { AgentEvent } from './emission.ts'
import type { JobOptions } from './job-options.ts'

export const lineEnds = { lf: '\n', crlf: '\r\n', cr: '\r' } as const

/** An event as text of the wire, with whatever line ends the job uses. */
export function wireEvent({ id, name, data }: AgentEvent, eol: JobOptions['eol']): string {
  const end = lineEnds[eol]
  let text = id === null ? '' : `id: ${id}${end}`
  if (name !== null) text += `event: ${name}${end}`
  for (const line of data.split('\n')) text += `data: ${line}${end}`
  return text + end
}

/** Lines that mean nothing: a reader must pass over them. The bytes that are no UTF-8 stand in a comment. */
export const wireGarbage = (eol: JobOptions['eol']): Buffer => {
  const end = Buffer.from(lineEnds[eol])
  const lines = [
    'nonsense',
    ' data: indented',
    'DATA: loud',
    'data\u0000: null',
    'foo: bar: baz',
    'retry: soon',
    'id: null\u0000',
  ]
  return Buffer.concat([
    ...lines.flatMap((line) => [Buffer.from(line), end]),
    Buffer.from([0x3a, 0xff, 0xfe, 0xc3, 0x28, 0xf0, 0x9f]),
    end,
  ])
}
