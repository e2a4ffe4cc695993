import { indexOf, SseClient, type Received, type SseClientOptions } from './sse-client.ts'

type Edge = { readonly url: string }
/** `query` follows what is asked for: `?from=1` of one run, `&from=1` of several, or of topics. */
export type FollowOptions = Partial<SseClientOptions> & { readonly query?: string }

/** One stream of an edge, which is not opened again when it has ended. */
const follow = (edge: Edge, path: string, { query = '', ...rest }: FollowOptions): SseClient =>
  new SseClient({ urls: [`${edge.url}${path}${query}`], reconnects: false, ...rest })

export const followRun = (edge: Edge, run: string, options: FollowOptions = {}): SseClient =>
  follow(edge, `/runs/${run}/events`, options)

export const followRuns = (edge: Edge, runs: readonly string[], options: FollowOptions = {}): SseClient =>
  follow(edge, `/runs/events?${runs.map((run) => `run=${run}`).join('&')}`, options)

export const followTopics = (edge: Edge, topics: readonly string[], options: FollowOptions = {}): SseClient =>
  follow(edge, `/topics/events?${topics.map((topic) => `topic=${encodeURIComponent(topic)}`).join('&')}`, options)

export const first = (client: SseClient): Promise<Received> => client.until('a first frame', () => true)

/** The indexes of the events of its run, as they came. */
export const indexes = (client: SseClient): number[] => client.events.map(indexOf)

export const json = (frame: Received): Record<string, unknown> =>
  JSON.parse(frame.data ?? '') as Record<string, unknown>

/** Every number from one to another, both among them. */
export const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at)
