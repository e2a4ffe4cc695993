/**
 * How a job behaves, from the query of the request that makes it (`?count=500&rate=100&mode=replay`). Every name and
 * its meaning stands here; an unknown name or a bad value is refused.
 */
export type JobOptions = {
  /** What is said: `numbers` (every kind of event, numbered) or `demo` (reads like the run of an AI agent). */
  readonly script: 'numbers' | 'demo'
  /** Events before the terminal one. */
  readonly count: number
  /** Time between two events. 0 = all at once. `rate=` (events per second) may be given in its place. */
  readonly everyMs: number
  /** Time from the making of the job to its first event. */
  readonly delayMs: number
  /** After this many events (0 = never) the emission rests for `pauseMs`. */
  readonly pauseAfter: number
  readonly pauseMs: number
  /** Least number of bytes of an event's data. */
  readonly size: number
  /** Type of the last event; `[DONE]` = that text as data; `none` = no such event, the stream stays open. */
  readonly terminal: string
  /** What a new connection gets: what follows its Last-Event-ID, all, the last `window` events, or only what is new. */
  readonly mode: 'id' | 'replay' | 'window' | 'none'
  readonly window: number
  /** Every n-th event has an id: 1 = all, 0 = none, 3 = only events 3, 6, 9, … */
  readonly idEvery: number
  /** This many events in a row share an id. */
  readonly idRepeat: number
  /** Ids start again at 1 after this many events; 0 = never. */
  readonly idRestart: number
  /** Events say something else on every connection, replayed ones too. */
  readonly nondeterministic: boolean
  /** Cut each connection in the middle of the event after this many; 0 = never. `cleanCut` ends it between two. */
  readonly cutAfter: number
  readonly cleanCut: boolean
  /** Bytes per write; 0 = as many as there are. */
  readonly slice: number
  /** Wait between two writes of one connection: a slow line. */
  readonly sliceMs: number
  readonly eol: 'lf' | 'crlf' | 'cr'
  /** Lines that are no event before every n-th one; 0 = never. */
  readonly garbageEvery: number
  /** A comment, and an event named `ping`, every so many ms while nothing else is sent; 0 = never. */
  readonly commentMs: number
  readonly pingMs: number
  /** Every n-th event is `bigBytes` long; 0 = never. */
  readonly bigEvery: number
  readonly bigBytes: number
  /** Compress although nobody asked for it. */
  readonly encoding: 'identity' | 'gzip' | 'deflate' | 'br'
  /**
   * The answers to the first requests, comma-separated, then streams: a status (`503`), `wrong-type`, `redirect`,
   * `redirect-away`, `redirect-loop`, `redirect-nowhere`, `drop` (no answer, the socket is closed) or `stream`;
   * `503x4` = four times.
   */
  readonly answers: readonly string[]
  /** The `Retry-After` of those answers, and the `retry:` of every stream, as they are to stand there; '' = none. */
  readonly retryAfter: string
  readonly retry: string
}

const DEMO: Partial<JobOptions> = { script: 'demo', count: 200, everyMs: 900, commentMs: 15_000 }

const DEFAULTS: JobOptions = {
  script: 'numbers',
  count: 100,
  everyMs: 10,
  delayMs: 0,
  pauseAfter: 0,
  pauseMs: 0,
  size: 0,
  terminal: 'done',
  mode: 'id',
  window: 50,
  idEvery: 1,
  idRepeat: 1,
  idRestart: 0,
  nondeterministic: false,
  cutAfter: 0,
  cleanCut: false,
  slice: 0,
  sliceMs: 0,
  eol: 'lf',
  garbageEvery: 0,
  commentMs: 0,
  pingMs: 0,
  bigEvery: 0,
  bigBytes: 0,
  encoding: 'identity',
  answers: [],
  retryAfter: '',
  retry: '',
}

const choices: Readonly<Record<string, readonly string[]>> = {
  script: ['numbers', 'demo'],
  mode: ['id', 'replay', 'window', 'none'],
  eol: ['lf', 'crlf', 'cr'],
  encoding: ['identity', 'gzip', 'deflate', 'br'],
}

const answer = /^(\d{3}|wrong-type|redirect|redirect-away|redirect-loop|redirect-nowhere|drop|stream)(?:x(\d{1,7}))?$/

/** Throws a RangeError that says what is wrong. No options at all make the demo. */
export function parseJobOptions(query: URLSearchParams): JobOptions {
  const options: Record<string, unknown> = { ...DEFAULTS }
  const demo = query.size === 0 || query.get('script') === 'demo'
  if (demo) Object.assign(options, DEMO)
  for (const [name, text] of query) {
    if (name === 'rate') options['everyMs'] = 1000 / number(name, text, 0.001)
    else if (!Object.hasOwn(DEFAULTS, name)) throw new RangeError(`there is no option ${name}`)
    else options[name] = value(name, text)
  }
  return options as JobOptions
}

/** `503x2,redirect` → each answer by itself, in order. Throws a RangeError for one there is not. */
export const parseAnswers = (text: string): string[] => text.split(',').flatMap(repeated)

function value(name: string, text: string): unknown {
  const known = choices[name]
  if (known !== undefined) {
    if (!known.includes(text)) throw new RangeError(`${name} must be one of ${known.join(', ')}`)
    return text
  }
  if (name === 'answers') return parseAnswers(text)
  const standard = DEFAULTS[name as keyof JobOptions]
  if (typeof standard === 'number') return number(name, text, name === 'idRepeat' ? 1 : 0)
  if (typeof standard === 'boolean') return text !== '0' && text !== 'false'
  return text
}

function number(name: string, text: string, least: number): number {
  const found = Number(text)
  if (text === '' || !Number.isFinite(found) || found < least) {
    throw new RangeError(`${name} must be a number, at least ${least}`)
  }
  return found
}

function repeated(text: string): string[] {
  const found = answer.exec(text)
  if (found === null) throw new RangeError(`answers: ${text} is none`)
  return Array<string>(Math.min(100_000, Number(found[2] ?? 1))).fill(found[1] ?? '')
}
