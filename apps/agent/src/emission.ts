import { demoEvent } from './demo-script.ts'
import type { JobOptions } from './job-options.ts'

/** One event as the agent puts it on the wire. */
export type AgentEvent = {
  /** The value of its `id:` line; null without one. */
  readonly id: string | null
  readonly name: string | null
  readonly data: string
}

/**
 * What job `job` emits as its `i`-th event, from 1: the same answer for ever, so that a test can compute what must have
 * been stored. Event `count + 1` is the terminal one. `take` is the number of the connection, for jobs whose
 * `nondeterministic` makes every connection say something else.
 */
export function emittedEvent(job: string, options: JobOptions, i: number, take = 0): AgentEvent {
  const id = idOf(options, i)
  const mark = options.nondeterministic ? take : 0
  if (i > options.count) return terminalEvent(job, options, id, mark)
  if (options.bigEvery > 0 && i % options.bigEvery === 0) {
    return { id, name: 'output', data: `${job} ${i} ${mark} `.padEnd(options.bigBytes, 'b') }
  }
  const event = options.script === 'demo' ? demoEvent(job, i, mark) : numberedEvent(job, i, mark, options.size)
  return { id, ...event }
}

function terminalEvent(job: string, { terminal }: JobOptions, id: string | null, mark: number): AgentEvent {
  if (terminal === '[DONE]') return { id, name: null, data: terminal }
  return { id, name: terminal, data: JSON.stringify({ job, take: mark }) }
}

/** With and without a name, JSON and text, one line and several, ASCII and not: in turn, and never the same twice. */
function numberedEvent(job: string, i: number, take: number, size: number): Omit<AgentEvent, 'id'> {
  const body = (fields: object): string => {
    const text = JSON.stringify({ ...fields, job, i, take })
    return size <= text.length + 10
      ? text
      : JSON.stringify({ ...fields, job, i, take, pad: 'x'.repeat(size - text.length - 9) })
  }
  switch (i % 5) {
    case 0:
      return { name: 'tool_result', data: body({}) }
    case 1:
      return { name: null, data: body({ type: 'assistant' }) }
    case 2:
      return {
        name: 'output',
        data: `${job} ${i} ${take}: zwei\nZeilen, 北😀 €\n ${'y'.repeat(Math.max(0, size - 60))}`,
      }
    case 3:
      return { name: null, data: ` ${job} ${i} ${take} `.padEnd(size, 'z') }
    default:
      return { name: 'progress', data: body({ done: i }) }
  }
}

function idOf({ idEvery, idRepeat, idRestart }: JobOptions, i: number): string | null {
  if (idEvery === 0 || i % idEvery !== 0) return null
  const number = Math.ceil(i / idRepeat)
  return String(idRestart > 0 ? ((number - 1) % idRestart) + 1 : number)
}

/** All events of the job, the terminal one included. */
export const lastEvent = ({ count, terminal }: JobOptions): number => (terminal === 'none' ? count : count + 1)

/** When event `i` is emitted, in ms after the job was made. */
export function dueMs({ delayMs, everyMs, pauseAfter, pauseMs }: JobOptions, i: number): number {
  return delayMs + (i - 1) * everyMs + (pauseAfter > 0 && i > pauseAfter ? pauseMs : 0)
}

/** How many events have been emitted `elapsedMs` after the job was made. */
export function emittedBy(options: JobOptions, elapsedMs: number): number {
  const { everyMs, pauseAfter } = options
  const last = lastEvent(options)
  if (elapsedMs < dueMs(options, 1)) return 0
  if (everyMs === 0)
    return pauseAfter > 0 && elapsedMs < dueMs(options, pauseAfter + 1) ? Math.min(last, pauseAfter) : last
  const atMs = (rest: number): number => Math.floor((elapsedMs - options.delayMs - rest) / everyMs) + 1
  const straight = Math.min(last, atMs(0))
  if (pauseAfter === 0 || straight <= pauseAfter) return straight
  return Math.min(last, Math.max(pauseAfter, atMs(options.pauseMs)))
}

/** The first event a new connection gets. */
export function firstFor(options: JobOptions, lastEventId: string | null, emitted: number): number {
  switch (options.mode) {
    case 'replay':
      return 1
    case 'window':
      return Math.max(1, emitted - options.window + 1)
    case 'none':
      return emitted + 1
    case 'id':
      return lastEventId === null ? 1 : afterId(options, lastEventId, emitted)
  }
}

/** Behind the newest event with that id; an id never given begins anew. */
function afterId(options: JobOptions, id: string, emitted: number): number {
  for (let i = emitted; i > 0; i--) if (idOf(options, i) === id) return i + 1
  return 1
}
